// grid_rows.cpp -- records and keeps the code of rows of lanes
#include "kernels/cpu/jit/grid_rows.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "kernels/cpu/jit/grid_arithmetic.h"

namespace mt {
namespace {

using ir::LaneOp;
using V = GridValue;
using S = GridStatement;

/// Whether all indices of an access are numbers.
bool is_linear(const V& access) {
  return std::none_of(access.args.begin(), access.args.end(),
                      [](const V* a) { return a->is == GridClass::vector; });
}

template <class T> class RowRecorder : LaneArithmetic<T>, RowPath<RowRecorder<T>> {
  using Base = LaneArithmetic<T>;
  using Path = RowPath<RowRecorder<T>>;
  using typename Base::F, typename Base::W, typename Base::Mask;
  using Base::active_, Base::builder_, Base::fine_, Base::kNarrow;
  using Path::lanes_, Path::operands_;
  friend Path;

 public:
  RowRecorder(const RowKey& key, Isa isa) : Base(isa, true, true), key_(key), isa_(isa) {
    Base::inside_ = true;
  }

  std::unique_ptr<Code> compiled(const GridProgram& p) {
    if (!Path::body(p.body) || fails_) return nullptr;
    for (const Store& s : stores_)
      if (!write(s)) return nullptr;
    if (fine_.id != Mask(true).id) builder_.guard(fine_.id);
    ir::LaneProgram program = builder_.finish();
    program.operands = operands_;
    return compile(program, isa_, repeated_);
  }
  /// Whether there are instructions for an operation.
  bool fits(const V& v) {
    int32_t id[3] = {};
    for (int k = 0; k < v.args.count; ++k) {
      const bool is_bool = v.args.of[k]->type == GridType::boolean;
      id[k] = builder_.add(is_bool ? LaneOp::load_bool : LaneOp::load, -1, -1, -1, uint64_t(k));
    }
    return Base::calculated(v, id) >= 0;
  }

 private:
  char next() { return at_ < key_.used ? key_.bytes[at_++] : '?'; }
  char decide(const V&) { return next(); }
  void assign(const S&) {}
  Mask active() const { return active_; }
  void activate(Mask m) { active_ = m; }
  Mask truth(const V& v) {
    const int32_t id = operand(v);
    fails_ |= id < 0;
    return id < 0 ? Mask(false) : Mask::of(id);
  }

  bool value(const V& v) {
    builder_.set_line(v.line);
    if (v.code == GridCode::load_scalar) places_.push_back(-1);
    if (v.code == GridCode::scalar && Path::is_order(v)) next();
    if (v.code < GridCode::vector) return true;
    int32_t id = v.code == GridCode::compare  ? Mask(next() == 'T').id
                 : v.code == GridCode::spread ? linear(v)
                 : v.code == GridCode::load   ? load(v)
                                              : operation(v);
    if (id < 0) return false;
    if (v.masked && lanes_ == Path::some) {
      const bool is_bool = v.type == GridType::boolean;
      const auto before = vector_.find(v.at);
      const int32_t nothing = is_bool ? Mask(false).id : W(0).id;
      const int32_t other = before == vector_.end() ? nothing : before->second;
      const int32_t either = Base::chosen(active_, id, other, is_bool);
      if (v.type == GridType::integer) Base::note_either(either, id, other);
      id = either;
    }
    vector_[v.at] = id;
    return true;
  }
  int32_t operation(const V& v) {
    int32_t id[3] = {};
    for (int k = 0; k < v.args.count; ++k)
      if ((id[k] = operand(*v.args.of[k])) < 0) return -1;
    return Base::calculated(v, id);
  }
  /// The lanes' value of an operand.
  int32_t operand(const V& v) {
    if (v.is != GridClass::scalar) {
      const auto found = vector_.find(v.at);
      return found == vector_.end() ? -1 : found->second;
    }
    if (v.type == GridType::boolean) return Mask(next() == 'T').id;
    if (v.kind == V::number && v.type == GridType::real) return F(T(v.value)).id;
    if (v.kind == V::number)
      return kNarrow && std::fabs(v.value) >= 0x1p31 ? -1 : Base::whole_number(int64_t(v.value)).id;
    const int known = Path::held(v.at);
    return number(known >= 0 ? known : Path::hold(v.at));
  }
  int32_t number(int operand) {
    repeated_ |= uint64_t(1) << operand;
    return builder_.add(LaneOp::load, -1, -1, -1, uint64_t(operand));
  }
  /// start + step * lane.
  int32_t linear(const V& v) {
    const int step = static_cast<signed char>(next());
    const W start = W::of(number(operands_++)), lane = W::of(builder_.add(LaneOp::position));
    W x = W(0);
    if (step == RowKey::kLargeStep) {
      x = start + times(lane, number(operands_++));
    } else {
      const unsigned size = unsigned(std::abs(step));
      for (int bit = 0; bit < 4; ++bit)
        if (size >> bit & 1) x = x + (lane << bit);
      x = step < 0 ? start - x : start + x;
    }
    const double end = kNarrow ? 0x1p31 : 0x1p51;
    Base::with_range(x, -end + 1, end - 1);
    return v.type == GridType::real ? Base::to_real(x).id : x.id;
  }

  // ---- accesses ------------------------------------------------------------------------------------

  bool is_direct(Dtype d, bool strided) const {
    return !strided && (is_float(d) || d == Dtype::i32 || d == Dtype::i64) &&
           item_size(d) == int64_t(sizeof(T));
  }
  int32_t element(Dtype d, bool strided, bool high = false) {
    return builder_.add(LaneOp::load_as, -1, -1, -1, ir::element_bits(operands_, d, strided, high));
  }
  int32_t load(const V& v) {
    const auto d = Dtype(next() - 'A');
    const bool strided = next() == 'n';
    const int same = next() - 1;
    places_.push_back(same >= 0 ? places_[size_t(same)] : -1);
    if (!is_linear(v)) return places_.back() = gathered(v, d);
    if (places_.back() >= 0) return ++operands_, places_.back();
    int32_t id;
    if (v.type == GridType::boolean && !strided)
      id = builder_.add(LaneOp::load_bool, -1, -1, -1, uint64_t(operands_));
    else if (is_direct(d, strided))
      id = builder_.add(LaneOp::load, -1, -1, -1, uint64_t(operands_));
    else id = element(d, strided);
    const W x = W::of(id);
    if (v.type == GridType::boolean && strided) id = (x != W(0)).id;
    if (v.type == GridType::integer) with_range_of(x, d);
    if (kNarrow && d == Dtype::i64)
      Base::must(W::of(element(d, strided, true)) == select(less(x, W(0)), W(-1), W(0)));
    ++operands_;
    return places_.back() = id;
  }

  /// Notes the range of loaded integers.
  W with_range_of(W x, Dtype d) {
    if (is_float(d) || item_size(d) >= int64_t(sizeof(T))) return x;
    const double end = std::ldexp(1.0, int(8 * item_size(d)) - (d != Dtype::u8));
    return Base::with_range(x, d == Dtype::u8 ? 0 : -end, end - 1);
  }

  /// An access with indices that are not linear; numbers are part of the address, but for their steps.
  int32_t gathered(const V& v, Dtype d) {
    const int place = operands_++;
    W offset(0), lane = W::of(builder_.add(LaneOp::position));
    for (const V* a : v.args) {
      const char kind = next();
      if (kind == '0') continue;
      if (kind != 'v') {
        offset = offset + times(lane, number(operands_++));
        continue;
      }
      const int32_t id = operand(*a);
      if (id < 0) return -1;
      const W size = W::of(number(operands_++)), index = W::of(id) - W(1);
      const Mask fine = index < size;
      Base::must(fine);
      const W safe = select(fine & active_, index, W(0));
      offset = offset + (next() == '1' ? safe : times(safe, number(operands_++)));
    }
    if (item_size(d) < 4) {  // 32 bits are read
      const W least = W::of(number(operands_++));
      const Mask below = less(offset, least);
      Base::must(!below);
      offset = select(below, least, offset);
    }
    const auto bits = [&](bool high) { return ir::element_bits(place, d, false, high); };
    const W x = W::of(builder_.add(LaneOp::gather, offset.id, -1, -1, bits(false)));
    if (kNarrow && d == Dtype::i64)
      Base::must(W::of(builder_.add(LaneOp::gather, offset.id, -1, -1, bits(true))) ==
                 select(less(x, W(0)), W(-1), W(0)));
    return with_range_of(x, d).id;
  }
  /// The product of numbers below 2^31.
  W times(W x, int32_t y) {
    if (kNarrow || isa_ == Isa::avx512) return x * W::of(y);
    Base::with_range(x, 0, 0x1p31), Base::with_range(W::of(y), -0x1p31, 0x1p31);
    return Base::product(x, W::of(y));
  }

  struct Store {
    int place, operand;  // place: the first access of the same elements
    Dtype dtype;
    bool strided, is_bool;
    int32_t id;
    Mask where;
    int32_t line;
  };
  bool store(const S& s) {
    const auto d = Dtype(next() - 'A');
    const bool strided = next() == 'n';
    const int same = next() - 1, place = same >= 0 ? same : int(places_.size());
    places_.push_back(-1);
    const int at = operands_++;
    const int32_t id = operand(*s.value);
    stores_.push_back(
        {place, at, d, strided, s.value->type == GridType::boolean, id, active_, s.line});
    return id >= 0;
  }
  size_t stores() const { return stores_.size(); }
  /// Joins stores of both branches to the same elements.
  void join(Mask c, size_t first, size_t second) {
    const auto only = [&](size_t from, size_t to, int place) {
      size_t found = to;
      for (size_t k = from; k < to; ++k)
        if (stores_[k].place == place) {
          if (found < to) return to;
          found = k;
        }
      return found;
    };
    const Mask yes = active_ & c, no = active_ & !c;
    for (size_t k = first; k < second; ++k) {
      Store& a = stores_[k];
      const size_t j = only(second, stores_.size(), a.place);
      if (j == stores_.size() || only(first, second, a.place) != k) continue;
      const Store& b = stores_[j];
      if (a.where.id != yes.id || b.where.id != no.id || a.dtype != b.dtype) continue;
      a.id = Base::chosen(c, a.id, b.id, a.is_bool), a.where = active_;
      stores_.erase(stores_.begin() + int64_t(j));
    }
  }
  bool write(const Store& s) {
    builder_.set_line(s.line);
    const bool all = s.where.id == Mask(true).id;
    if (kNarrow && s.dtype == Dtype::i64 && (s.strided || !all)) return false;
    if (all && (s.is_bool ? !s.strided : is_direct(s.dtype, s.strided)))
      return builder_.store(s.operand, s.id), true;
    const int32_t x = s.is_bool ? select(Mask::of(s.id), W(1), W(0)).id : s.id;
    builder_.add(LaneOp::store_as, x, s.where.id, -1,
                 ir::element_bits(s.operand, s.dtype, s.strided));
    return true;
  }

  const RowKey& key_;
  const Isa isa_;
  int at_ = 0;  // in the key
  bool fails_ = false;
  uint64_t repeated_ = 0;
  std::map<int, int32_t> vector_;  // by register
  std::vector<int32_t> places_;    // of the accesses: what was loaded, or -1
  std::vector<Store> stores_;
};

bool can_load(Dtype d) { return d <= Dtype::i16; }
bool can_store(Dtype d) { return can_load(d) && d != Dtype::bf16; }
bool can_gather(Dtype d, Dtype real) {
  return item_size(d) >= 4 || (real == Dtype::f32 && !is_float(d) && d != Dtype::b8);
}

struct Fit : RowFit {
  bool fits = true;
  std::set<int> gathered;  // the tensors with indices that are not linear
};

template <class T> bool has_code(const V& v, Isa isa) {
  const RowKey none{};
  return v.code != GridCode::vector || RowRecorder<T>(none, isa).fits(v);
}
bool are_linear(const Grid& g, int axis) {
  std::set<int> varying = {kGridBlock + axis, kGridFirst + axis, kGridThread + axis,
                           kGridPlace + axis};
  bool linear = true;
  for (size_t before = 0; before != varying.size();) {
    before = varying.size();
    each_statement(g.program->body, 0, [&](const S& s, int) {
      for (const V* v = s.first; v; v = v->next) {
        if (v->code >= GridCode::vector) continue;
        const auto count = std::count_if(v->args.begin(), v->args.end(), [&](const V* a) {
          return a->is != GridClass::vector && varying.count(a->at);
        });
        if (v->kind == V::load) linear &= count == 0 && !g.tensors[v->index].stored;
        if (count == 0) continue;
        varying.insert(v->at);
        const bool sums = v->has<op::Add, op::Sub, op::Neg>() || (v->has<op::Mul>() && count == 1);
        const bool orders = v->has<op::Lt, op::Le>();
        linear &= v->of == GridType::boolean ||
                  (v->of == GridType::integer && (sums || orders || v->type == v->of));
        linear &= v->type != GridType::integer || sums || v->converts();
      }
      if (s.kind == S::assign && s.is != GridClass::vector && varying.count(s.value->at))
        varying.insert(s.at);
    });
  }
  return linear;
}
Fit fit_of(const Grid& g, Isa isa) {
  Fit fit{};
  fit.fits = jit_setting() != "threads";
  bool stores = false;
  each_statement(g.program->body, 0, [&](const S& s, int) {
    fit.fits &= s.kind == S::assign || s.kind == S::store || s.kind == S::branch ||
                s.kind == S::scope || s.kind == S::leave;
    stores |= s.kind == S::store;
    fit.fits = fit.fits && (!s.place || is_linear(*s.place));
    for (const V* v = s.first; v && fit.fits; v = v->next) {
      if (v->code == GridCode::load && !is_linear(*v)) fit.gathered.insert(v->index);
      fit.fits =
          g.program->real == Dtype::f64 ? has_code<double>(*v, isa) : has_code<float>(*v, isa);
    }
    values_of(s, [&](const V& v) { fit.by_blocks |= v.kind == V::thread || v.kind == V::block; });
  });
  fit.fits &= stores;
  for (int axis = 0; axis < 3 && fit.fits; ++axis) fit.linear[axis] = are_linear(g, axis);
  return fit;
}

}  // namespace

const RowFit* rows_fit(const Grid& g) {
  constexpr int64_t kFewest = 32;
  if (g.tile[g.axes[0]] < kFewest || g.tile[g.axes[1]] > 1 || g.tile[g.axes[2]] > 1) return nullptr;
  static std::mutex lock;
  static auto* const all = new std::map<int64_t, Fit>;
  Isa isa;
  if (!jit_isa(isa)) return nullptr;
  const std::lock_guard guard(lock);
  auto found = all->find(g.program->number);
  if (found == all->end()) found = all->emplace(g.program->number, fit_of(g, isa)).first;
  const Fit& fit = found->second;
  for (int k = 0; fit.fits && k < g.program->tensors; ++k) {
    const GridTensor& t = g.tensors[k];
    if (t.shared || !(t.stored ? can_store(t.dtype) : can_load(t.dtype)) ||
        (!can_gather(t.dtype, g.program->real) && fit.gathered.count(k)))
      return nullptr;
  }
  return fit.fits ? &fit : nullptr;
}

const Code* row_code(const GridProgram& p, const RowKey& key) {
  static std::mutex lock;
  static auto* const all = new std::map<std::pair<int64_t, std::string>, std::unique_ptr<Code>>;
  Isa isa;
  if (!jit_isa(isa)) return nullptr;
  const std::lock_guard guard(lock);
  const auto [found, is_new] =
      all->try_emplace({p.number, std::string(key.bytes, size_t(key.used))});
  if (is_new)
    found->second = p.real == Dtype::f64 ? RowRecorder<double>(key, isa).compiled(p)
                                         : RowRecorder<float>(key, isa).compiled(p);
  return found->second.get();
}

}  // namespace mt
