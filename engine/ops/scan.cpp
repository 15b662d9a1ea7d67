// scan.cpp -- scans of tensors: the verb, and the gradients, which are reverse scans
#include "engine/ops/reduce.h"

#include <algorithm>
#include <cstring>

#include "engine/ops/reduce_common.h"

namespace mt {

AlongDim along_dim(const Tensor& in, const Tensor& out, int d) {
  AlongDim l;
  l.ndim = 0;
  for (int k = 0; k < in.dim(); ++k) {
    if (k == d) continue;
    l.size[l.ndim] = in.size(k);
    l.in_stride[l.ndim] = in.stride(k);
    l.out_stride[l.ndim++] = out.stride(k);
  }
  l.n = in.size(d), l.in_step = in.stride(d), l.out_step = out.stride(d);
  return l;
}

namespace {

// ---- properties computed from the list ----------------------------------------------------------

using Formula = Tensor (*)(const Tensor& g, const Tensor& x, const Tensor& y);

struct ScanEntry {
  ReduceRow row;
  bool by_sign, lines_apart;
  Formula weigh, unweigh;  // null: the incoming gradient is scanned directly
  NodeType type;
};

void scan_backward(Node& node, const Tensor& g, Tensor* dx);

template <class Op> constexpr ScanEntry scan_entry() {
  constexpr bool by_hand = std::is_same_v<Op, op::Cumprod>;
  ScanEntry e{};
  e.row = {&Op::info, op::count_params(Op::info), Op::reverse_scan || Op::needs_index || by_hand,
           Op::needs_index};
  e.by_sign = Op::by_sign, e.lines_apart = Op::lines_apart;
  if constexpr (requires(Tensor t) { Op::weigh(t, t, t); })
    e.weigh = Op::template weigh<Tensor>, e.unweigh = Op::template unweigh<Tensor>;
  e.type = {Op::info.name,
            Op::needs_index ? gather_backward
            : by_hand       ? cumprod_backward
                            : scan_backward,
            op::scan_id<Op>};
  return e;
}
constinit const auto scan_entries =
    table_of(op::Scans{}, [](auto op) { return scan_entry<decltype(op)>(); });

/// One call: along dimension d; `backwards` scans each line from its end to its beginning.
struct ScanCall {
  int op, d;
  bool backwards = false;
  double param[op::kMaxParams] = {};
};

Tensor run(const ScanCall& how, const Tensor& x, Tensor* index) {
  if (is_storage_only(x.dtype()))
    return cast_no_grad(run(how, to_compute_dtype(x), index), x.dtype());
  Tensor out = empty(x.shape(), x);
  if (index) *index = empty(x.shape(), Dtype::i64, x.device());
  Scan s;
  s.op = how.op, s.dtype = x.dtype(), s.out = out.data(), s.in = x.data();
  s.index = index ? index->argument_as<int64_t>() : nullptr;
  std::memcpy(s.param, how.param, sizeof s.param);
  s.lines = along_dim(x, out, how.d);
  if (how.backwards && x.numel() > 0) {
    AlongDim& l = s.lines;
    const int64_t item = item_size(x.dtype()), last = l.n - 1;
    s.in = static_cast<const char*>(s.in) + last * l.in_step * item;
    s.out = static_cast<char*>(s.out) + last * l.out_step * item;
    l.in_step = -l.in_step, l.out_step = -l.out_step;
  }
  x.device().scan(s);
  return out;
}

Tensor scan_recorded(const ScanCall& how, const Tensor& x, Tensor* index = nullptr) {
  const ScanEntry& e = scan_entries[how.op];
  Tensor out;
  if (e.lines_apart && !is_cpu(x.device()) && how.d > 0 && x.stride(how.d) == 1 &&
      x.numel() >= 4 * x.size(how.d)) {
    ScanCall transposed = how;
    transposed.d = 0;
    out = run(transposed, contiguous(transpose(x.detach(), 0, how.d)), index);
    out = contiguous(transpose(out, 0, how.d));
  } else {
    out = run(how, x, index);
  }
  if (!e.row.differentiable || !wants_grad(x)) return out;
  if (e.row.needs_index) {
    record_gather(e.type, x, out, how.d, *index);
    return out;
  }
  Node& node = record(e.type, out, {&x});
  if (e.row.info->reads & op::reads_x) node.save(0, x, 0);
  if (e.row.info->reads & op::reads_result) node.save(1, out, Node::kOutput);
  KeptScan kept{how.d, how.backwards, {}};
  std::copy_n(how.param, op::kMaxParams - 1, kept.param);
  node.keep(kept);
  return out;
}

void scan_backward(Node& node, const Tensor& g, Tensor* dx) {
  const ScanEntry& e = scan_entries[node.type->op];
  const KeptScan& kept = node.kept<KeptScan>();
  ScanCall back{node.type->op, kept.d, !kept.backwards};
  std::copy_n(kept.param, op::kMaxParams - 1, back.param);
  const Tensor x = node.get(0), y = node.get(1);
  const auto part = [&](const Tensor& amount) {
    if (!e.weigh) return scan_recorded(back, amount);
    return e.unweigh(scan_recorded(back, e.weigh(amount, x, y)), x, y);
  };
  dx[0] = e.by_sign ? part(g) - part(-g) : part(g);
}

}  // namespace

const ReduceRow& scan_row(int scan) { return scan_entries[scan].row; }

ValuesIndices scan(int op, const Tensor& given, int64_t dim, const double* params) {
  const ScanEntry& e = scan_entries[op];
  const op::ReduceInfo& info = *e.row.info;
  if (info.takes == op::Takes::floats) need_float(info.name, given);
  const Tensor x = info.takes == op::Takes::real ? as_float(given)
                   : info.result == op::Result::wide && !is_float(given.dtype())
                       ? to(given, Dtype::i64)
                       : given;
  ScanCall how{op, 0};
  for (int i = 0; i < e.row.params; ++i) how.param[i] = params ? params[i] : info.params[i].value;
  return at_least_1d(info.name, x, dim, [&](const Tensor& y, int d) {
    how.d = d;
    ValuesIndices p;
    p.values = scan_recorded(how, y, e.row.needs_index ? &p.index : nullptr);
    return p;
  });
}

Tensor sum_from_end(const Tensor& x, int d) {
  return scan_recorded({op::scan_id<op::Cumsum>, d, true}, x);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim) {
  const int d = wrap_dim("diff", dim, x.dim());
  if (x.dim() == 0) fail("diff: a 0-d tensor has no neighbours");
  if (n < 0) fail("diff: n is {}; it must be 0 or more", n);
  if (n == 0) return clone(x);
  Tensor y = x;
  for (; n > 0 && y.size(d) > 0; --n) {
    const int64_t left = y.size(d) - 1;
    const Tensor a = slice(y, d, 0, left), b = slice(y, d, y.size(d) - left, left);
    y = y.dtype() == Dtype::b8 ? ne(b, a) : b - a;
  }
  return y;
}

}  // namespace mt
