// jit_thread_access.cpp -- scalar code of grid kernels: addresses, loads and stores of elements
#include <cmath>

#include "kernels/cpu/jit/jit_thread_values.h"

namespace mt {

// ---- accesses ------------------------------------------------------------------------------------

ThreadValues::Address ThreadValues::tensor_word(int tensor, size_t offset, int d) {
  return asm_.qword[r15 + int(size_t(tensor) * sizeof(GridTensor) + offset) + 8 * d];
}
const ThreadValues::Row* ThreadValues::row_of(const V& v) const {
  for (const Row& r : rows_) {
    bool equal = r.access->index == v.index;
    for (size_t k = 0; equal && k + 1 < size_t(v.args.count); ++k)
      equal = same(*r.access->args[k], *v.args[k]);
    if (equal) return &r;
  }
  return nullptr;
}
ThreadValues::RegExp ThreadValues::element_of(const Row& row, const V& v, Used used) {
  const Reg64 k = temporary(used.whole);
  position(*v.args[size_t(v.args.count - 1)], used);
  asm_.cmp(k, whole_slot(row.size));
  outside_.push_back({{}, &v, used});
  asm_.jae(outside_.back().label);
  asm_.mov(rax, whole_slot(row.data));
  return rax + k * int(item_size(grid_.tensors[v.index].dtype));
}
/// The integers that a value may be; infinite where nothing is known. Sizes of blocks are part of the code's key.
ThreadValues::Range ThreadValues::range_of(const V& v, int depth) const {
  constexpr double kLarge = 0x1p50;
  Range all;
  if (depth > 8 || v.type != GridType::integer) return all;
  const auto of = [&](size_t k) { return range_of(*v.args[k], depth + 1); };
  if (v.kind == V::number) return {v.value, v.value};
  if (v.kind == V::thread) return {1, double(grid_.tile[v.index])};
  if (v.kind == V::variable) {
    const auto found = only_.find(v.index);
    const GridStatement* const s = found == only_.end() ? nullptr : found->second;
    if (!s) return all;
    const Range first = range_of(*s->value, depth + 1);
    if (s->kind == GridStatement::assign) return first;
    if (s->kind != GridStatement::count || s->step->kind != V::number) return all;
    const Range last = range_of(*s->last, depth + 1);
    return s->step->value > 0 ? Range{first.lo, last.hi} : Range{last.lo, first.hi};
  }
  if (v.kind != V::operation || v.args.count > 2) return all;
  if (v.op == kConvert) return of(0);
  const Range x = of(0), y = v.args.count > 1 ? of(1) : all;
  const bool by = v.args.count > 1 && v.args[1]->kind == V::number && v.args[1]->value > 0;
  if (v.op == op::id<op::Add>) all = {x.lo + y.lo, x.hi + y.hi};
  else if (v.op == op::id<op::Sub>) all = {x.lo - y.hi, x.hi - y.lo};
  else if (v.op == op::id<op::Mul> && by) all = {x.lo * y.lo, x.hi * y.lo};
  else if (v.op == op::id<op::Remainder> && by) all = {0, y.lo - 1};
  else if (v.op == op::id<op::FloorDivide> && by)
    all = {std::floor(x.lo / y.lo), std::floor(x.hi / y.lo)};
  return all.lo > -kLarge && all.hi < kLarge ? all : Range{};
}

/// The address of an element; an index of a shared array is not checked if it is known to be inside.
ThreadValues::RegExp ThreadValues::element(const V& v, Used used) {
  const GridTensor& t = grid_.tensors[v.index];
  if (const Row* row = row_of(v); row && used.whole < kWholes) return element_of(*row, v, used);
  const int slots = slots_;
  const bool spills = t.ndim > 1 && used.whole + 1 >= kWholes;
  const int sum = spills ? take() : -1;
  if (used.whole >= kWholes) return fine_ = false, RegExp(rax);
  const Reg64 at = temporary(used.whole);
  int64_t shift = 0;
  bool any = false;
  for (int d = 0; d < t.ndim; ++d) {
    const V& x = *v.args[size_t(d)];
    const Range range = t.shared ? range_of(x) : Range{};
    const bool inside = range.lo >= 1 && range.hi <= double(t.size[d]);
    if (inside && x.kind == V::number) {
      shift += (int64_t(x.value) - 1) * t.stride[d];
      continue;
    }
    const Used now = any && !spills ? used.wholes(1) : used;
    const Reg64 k = temporary(now.whole);
    if (inside) {
      int64_t offset = -1;
      const V* rest = &without_offset(x, offset);
      if (std::abs(offset) > 1 << 12) rest = &x, offset = -1;  // a displacement has 32 bits
      shift += offset * t.stride[d];
      const Reg64 from = whole(*rest, now);
      if (t.stride[d] != 1) asm_.imul(k, from, int(t.stride[d]));
      else if (from.getIdx() != k.getIdx()) asm_.mov(k, from);
    } else {
      position(x, now);
      if (t.shared) asm_.cmp(k, int(t.size[d]));
      else asm_.cmp(k, tensor_word(v.index, offsetof(GridTensor, size), d));
      asm_.jae(fault(v, d, k.getIdx()));
      if (t.stride[d] != 1 && t.shared) asm_.imul(k, k, int(t.stride[d]));
      else if (t.stride[d] != 1)
        asm_.imul(k, tensor_word(v.index, offsetof(GridTensor, stride), d));
    }
    if (spills && any) asm_.add(whole_slot(sum), k);
    else if (spills) asm_.mov(whole_slot(sum), k);
    else if (any) asm_.add(at, k);
    any = true;
  }
  if (spills && any) asm_.mov(at, whole_slot(sum));
  slots_ = slots;
  asm_.mov(rax, tensor_word(v.index, offsetof(GridTensor, data)));
  const int item = int(item_size(t.dtype));
  return (any ? rax + at * item : RegExp(rax)) + int(shift) * item;
}
/// A value without the integers that are added to it.
const GridValue& ThreadValues::without_offset(const V& v, int64_t& offset) {
  const V* x = &v;
  while (x->kind == V::operation && x->args.count == 2 &&
         (x->op == op::id<op::Add> || x->op == op::id<op::Sub>)) {
    const V& y = *x->args[1];
    if (y.kind != V::number || std::abs(y.value) > 0x1p20 || std::abs(offset) > (1 << 28)) break;
    offset += x->op == op::id<op::Add> ? int64_t(y.value) : -int64_t(y.value);
    x = x->args[0];
  }
  return *x;
}
void ThreadValues::position(const V& v, Used used) {
  int64_t offset = -1;
  const V& x = without_offset(v, offset);
  const Reg64 from = whole(x, used);
  asm_.lea(temporary(used.whole), asm_.ptr[from + int(offset)]);
}
void ThreadValues::load(const V& v, Used used) {
  const Dtype dtype = grid_.tensors[v.index].dtype;
  load_from(element(v, used), dtype, Xmm(used.real), used.whole);
}
void ThreadValues::load_from(const RegExp& from, Dtype dtype, const Xmm& real, int whole) {
  const Reg64 word = whole < kWholes ? temporary(whole) : rax;
  switch (dtype) {
    case Dtype::f32:
      if (item_ == 4) return asm_.vmovss(real, asm_.ptr[from]);
      return asm_.vcvtss2sd(real, real, asm_.ptr[from]);
    case Dtype::f64: return asm_.vmovsd(real, asm_.ptr[from]);
    case Dtype::i64: return asm_.mov(word, asm_.ptr[from]);
    case Dtype::i32: return asm_.movsxd(word, asm_.dword[from]);
    case Dtype::i16: return asm_.movsx(word, asm_.word[from]);
    case Dtype::i8: return asm_.movsx(word, asm_.byte[from]);
    case Dtype::u8:
    case Dtype::b8: return asm_.movzx(word, asm_.byte[from]);
    case Dtype::f16:
    case Dtype::bf16:
      asm_.movzx(edx, asm_.word[from]);  // rax may be part of the address, which is used again
      if (dtype == Dtype::bf16) asm_.shl(edx, 16);
      asm_.vmovd(real, edx);
      if (dtype == Dtype::f16) asm_.vcvtph2ps(real, real);
      if (item_ == 8) asm_.vcvtss2sd(real, real, real);
      return;
    default: fine_ = false;
  }
}

void ThreadValues::store_to(const RegExp& to, Dtype dtype, const Xmm& real, const Reg64& word) {
  switch (dtype) {
    case Dtype::f32:
      if (item_ == 8) asm_.vcvtsd2ss(real, real, real);
      return asm_.vmovss(asm_.ptr[to], real);
    case Dtype::f64: return asm_.vmovsd(asm_.ptr[to], real);
    case Dtype::i64: return asm_.mov(asm_.ptr[to], word);
    case Dtype::i32: return asm_.mov(asm_.ptr[to], word.cvt32());
    case Dtype::i16: return asm_.mov(asm_.ptr[to], word.cvt16());
    case Dtype::i8:
    case Dtype::u8:
    case Dtype::b8: return asm_.mov(asm_.ptr[to], word.cvt8());
    case Dtype::f16:
    case Dtype::bf16: round_to_half(dtype, real); return asm_.mov(asm_.word[to], dx);
    default: fine_ = false;
  }
}
/// Rounds a real to 16 bits in dx, as f16_of_float and bf16_of_float do.
void ThreadValues::round_to_half(Dtype dtype, const Xmm& real) {
  Label is_nan, done;
  if (item_ == 8) asm_.vcvtsd2ss(real, real, real);
  asm_.vucomiss(real, real);
  asm_.vmovd(edx, real);
  asm_.jp(is_nan);
  if (dtype == Dtype::f16) {
    asm_.vcvtps2ph(real, real, 0);
    asm_.vmovd(edx, real);
  } else {
    asm_.bt(edx, 16);
    asm_.adc(edx, 0x7fff);
    asm_.shr(edx, 16);
  }
  asm_.jmp(done);
  asm_.L(is_nan);
  asm_.shr(edx, 16);
  asm_.and_(edx, 0x8000);
  asm_.or_(edx, dtype == Dtype::f16 ? 0x7e00 : 0x7fc0);
  asm_.L(done);
}

}  // namespace mt
