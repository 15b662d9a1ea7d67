// test_reductions.cpp -- every reduction and scan of the lists x dtype x layout; no name of one stands
// here
#include "kernels/cpu/pool/parallel.h"
#include "tests/unit/support.h"

namespace mt::test {

namespace {

/// A reduction or scan with its parameters: as declared, or (`variant` 1) with others.
struct Case {
  const op::ReduceInfo* info;
  int op;
  bool is_scan;
  const char* name;
  op::Takes takes;
  op::Result result;
  int params;
  bool differentiable, needs_index, empty_ok;
  double lo, hi, param[op::kMaxParams] = {};

  Case(int op_, bool scan_, int variant)
      : Case(op_, scan_, scan_ ? scan_row(op_) : reduce_row(op_), variant) {}
  Case(int op_, bool scan_, const ReduceRow& row, int variant)
      : info(row.info),
        op(op_),
        is_scan(scan_),
        name(info->name),
        takes(info->takes),
        result(info->result),
        params(row.params),
        differentiable(row.differentiable),
        needs_index(row.needs_index),
        empty_ok(info->empty == op::Empty::has_result),
        lo(info->domain.lo),
        hi(info->domain.hi) {
    for (int i = 0; i < params; ++i) {
      const double v = info->params[i].value;
      param[i] = variant == 0 ? v : 0.75 * v;
    }
  }
  Tensor run(const Tensor& x, const Shape& dims, bool keepdim = false) const {
    return is_scan ? scan(op, x, dims.size() ? dims[0] : 0, param).values
                   : reduce(op, x, dims, keepdim, param);
  }
  bool accepts(Dtype d) const { return takes != op::Takes::floats || is_float(d); }
  /// What is reduced where x is of this dtype.
  Dtype taken(Dtype d) const {
    return takes == op::Takes::bools                  ? Dtype::b8
           : takes == op::Takes::real && !is_float(d) ? Dtype::f32
                                                      : d;
  }
  Dtype answer(Dtype d) const {
    return result == op::Result::boolean                       ? Dtype::b8
           : result == op::Result::integer                     ? Dtype::i64
           : result == op::Result::wide && !is_float(taken(d)) ? Dtype::i64
                                                               : taken(d);
  }
  /// Over what there is to reduce in a matrix; a scan goes along one dimension.
  std::vector<Shape> dims() const {
    if (is_scan) return {{0}, {1}};
    if (needs_index) return {{}, {0}, {-1}};
    return {{}, {0}, {1}, {-1, 0}};
  }
};

/// Calls `body(Case)` for all of them, with their parameters as declared and otherwise.
template <class Body> void for_each_case(const Body& body) {
  const auto call = [&](const Case& c) {
    INFO((c.is_scan ? "scan " : "reduction ")
         << c.name << " " << c.op << ", parameter " << c.param[0]);
    CHECK(error_of([&] { body(c); }) == kNoError);
  };
  for (const bool is_scan : {false, true})
    for (int i = 0; i < (is_scan ? kScans : kReductions); ++i)
      for (int variant = 0; variant < (Case(i, is_scan, 0).params ? 2 : 1); ++variant)
        call(Case(i, is_scan, variant));
}

Tensor sample(Rng& rng, const Case& c, const Shape& shape, Dtype dtype) {
  const bool no_sign = dtype == Dtype::u8 || dtype == Dtype::b8;
  return random_tensor(rng, shape, dtype, no_sign && c.lo < 0 ? 0 : c.lo, c.hi);
}
/// How far results may lie apart that were joined in another order.
double tolerance(Dtype d) {
  return d == Dtype::f64   ? 1e-12
         : d == Dtype::f32 ? 4e-6
         : is_float(d)     ? 4.0 / double(largest_whole(d))
                           : 0;
}
void check_close(const Tensor& got, const Tensor& expected) {
  REQUIRE(got.dtype() == expected.dtype());
  const double near = tolerance(got.dtype());
  CHECK(difference(got, expected, near, near) == "");
}

/// Every layout of a matrix, and the odd ones.
std::vector<Layout> layouts(int64_t rows, int64_t columns) {
  std::vector<Layout> all = matrix_layouts(rows, columns);
  for (const Layout& odd : odd_layouts()) all.push_back(odd);
  return all;
}
/// Dimensions that x has.
std::vector<Shape> dims_for(const Case& c, const Tensor& x) {
  std::vector<Shape> fit;
  for (const Shape& dims : c.dims()) {
    bool has = x.dim() > 0 || dims.size() == 0 || c.is_scan;
    for (int64_t d : dims) has &= x.dim() > 0 ? d < x.dim() && d >= -x.dim() : d == 0;
    if (has && !(dims.size() == 2 && x.dim() < 2)) fit.push_back(dims);
  }
  return fit;
}
bool no_elements(const Case& c, const Tensor& x) { return x.numel() == 0 && !c.empty_ok; }

}  // namespace

MT_TEST("each reduction and scan gives the values computed elsewhere", "[reduce]") {
  for_each_case([&](const Case& c) {
    if (c.params > 0 && c.param[0] != c.info->params[0].value) return;
    for (int k = 0; k < 2; ++k)
      for (int d = 0; d < kDtypes; ++d) {
        const Dtype dtype = Dtype(d);
        const auto &in = c.info->domain.in[k], &out = c.info->results[k];
        const Tensor x = tensor({4}, {in, in + 4}), given = to(x, dtype);
        if (!c.accepts(dtype) || difference(to(given, Dtype::f64), x) != "") continue;
        INFO("as " << dtype_name(dtype));
        const Tensor y = c.run(given, {0});
        const double error = y.dtype() == Dtype::f64 ? 1e-14
                             : is_float(y.dtype())   ? 3 * 0x1p-23
                                                     : 0;
        for (int64_t i = 0; i < y.numel(); ++i) CHECK(is_result(y.at(i), out[i], error, y.dtype()));
      }
  });
}

MT_TEST("reductions and scans answer in the dtype that they declare", "[reduce]") {
  Rng rng(41);
  for_each_case([&](const Case& c) {
    for (int d = 0; d < kDtypes; ++d) {
      const Dtype dtype = Dtype(d);
      INFO("dtype " << dtype_name(dtype));
      const Tensor x = sample(rng, c, {5, 7}, dtype);
      if (!c.accepts(dtype)) {
        CHECK(contains(error_of([&] { c.run(x, {0}); }), c.name));
        continue;
      }
      const Tensor y = c.run(x, {1});
      CHECK(y.dtype() == c.answer(dtype));
      CHECK(y.shape() == (c.is_scan ? x.shape() : Shape{5}));
      if (!c.is_scan) CHECK(c.run(x, {1}, true).shape() == Shape{5, 1});
      CHECK(difference(y, c.run(to(x, c.taken(dtype)), {1})) == "");
      if (is_reduced_float(dtype))  // calculated in float32, rounded once
        CHECK(difference(y, to(c.run(to(x, Dtype::f32), {1}), y.dtype())) == "");
    }
  });
}

MT_TEST("reductions and scans agree with each line alone, in every layout", "[reduce]") {
  Rng rng(42);
  for_each_case([&](const Case& c) {
    for (int d = 0; d < kDtypes; ++d) {
      if (!c.accepts(Dtype(d))) continue;
      for (const Layout& layout : layouts(19, 45)) {
        INFO(layout.name << ", " << dtype_name(Dtype(d)));
        const Tensor x = layout.view(sample(rng, c, layout.base, Dtype(d)));
        if (no_elements(c, x)) continue;
        for (const Shape& dims : dims_for(c, x)) {
          INFO("over " << to_string(dims));
          const Tensor y = c.run(x, dims);
          check_close(y, c.run(clone(x), dims));
          if (x.dim() != 2 || dims.size() != 1) continue;
          const int along = int(dims[0] < 0 ? dims[0] + 2 : dims[0]);
          for (int64_t i = 0; i < x.size(1 - along); i += 6)
            check_close(pick(y, c.is_scan ? 1 - along : 0, i),
                        c.run(clone(pick(x, 1 - along, i)), {0}));
        }
      }
    }
  });
}

MT_TEST("each result of a scan is that of the elements so far", "[reduce]") {
  Rng rng(43);
  for_each_case([&](const Case& c) {
    if (!c.is_scan) return;
    const Tensor x = sample(rng, c, {3000}, Dtype::f64), y = c.run(x, {0});
    for (int64_t n = 1; n < 3000; n += 211) {
      const Tensor so_far = c.run(slice(x, 0, 0, n), {0});
      CHECK(difference(pick(so_far, 0, n - 1), pick(y, 0, n - 1), 1e-11, 1e-11) == "");
    }
  });
}

MT_TEST("float32 agrees with float64 in reductions and scans", "[reduce]") {
  Rng rng(44);
  for_each_case([&](const Case& c) {
    if (c.result == op::Result::boolean || c.result == op::Result::integer) return;
    const Tensor x = sample(rng, c, {37, 30}, Dtype::f32), wide = to(x, Dtype::f64);
    for (const Shape& dims : c.dims()) {
      const Tensor expected = c.run(wide, dims);
      if (error_of([&] { check_value(c.name, expected.at(0), Dtype::f32); }) != kNoError) continue;
      CHECK(difference(c.run(x, dims), to(expected, Dtype::f32), 4e-6, 4e-6) == "");
    }
  });
}

MT_TEST("of nothing there is what the reduction declares", "[reduce]") {
  for_each_case([&](const Case& c) {
    const Tensor none = zeros({3, 0});
    CHECK(c.run(none, {0}).numel() == 0);
    if (c.is_scan) return;
    const std::string error = error_of([&] { c.run(none, {1}); });
    if (c.empty_ok) CHECK(error == kNoError);
    else CHECK((contains(error, c.name) && contains(error, "(3 x 0)")));
  });
}

MT_TEST("bits of reductions and scans do not depend on the number of threads", "[reduce]") {
  Rng rng(45);
  const int before = cpu_threads();
  for_each_case([&](const Case& c) {
    const Dtype dtype = c.accepts(Dtype::f32) ? Dtype::f32 : Dtype::i32;
    const Tensor part = sample(rng, c, {331, 307}, dtype);
    const Tensor x = contiguous(expand(unsqueeze(part, 0), {3, 331, 307}));
    std::vector<std::pair<Tensor, Shape>> calls = {
        {x, {0}}, {x, {1}}, {x, {2}}, {transpose(x, 0, 2), {0}}, {reshape(x, {-1}), {0}}};
    if (!c.is_scan)
      for (const Shape& dims : {Shape{}, Shape{0, 2}})
        calls.push_back({slice(x, 2, 0, 153, 2), dims});
    for (const auto& [input, dims] : calls) {
      INFO(to_string(input.shape()) << " over " << to_string(dims));
      Tensor first;
      for (const int threads : {1, 3}) {
        set_cpu_threads(threads);
        const Tensor y = c.run(input, dims);
        if (!first.defined()) first = y;
        CHECK(difference(y, first) == "");
      }
      set_cpu_threads(before);
    }
  });
}

MT_TEST("gradients of reductions and scans agree with finite differences", "[reduce]") {
  Rng rng(46);
  for_each_case([&](const Case& c) {
    const Tensor probe = leaf(sample(rng, c, {2, 2}, Dtype::f64));
    CHECK(c.run(probe, {0}).requires_grad() == c.differentiable);
    if (!c.differentiable) return;
    for (const Layout& layout : layouts(3, 4)) {
      const Tensor base = sample(rng, c, layout.base, Dtype::f64), x = layout.view(base);
      if (no_elements(c, x)) continue;
      // Expanded elements are equal, and ties have no slope: there something is added.
      const bool ties = x.numel() > base.numel();
      const Tensor apart = random_tensor(rng, x.shape(), Dtype::f64, 0.1, 0.5);
      for (const Shape& dims : dims_for(c, x)) {
        INFO(layout.name << " over " << to_string(dims));
        const TensorFunction f = [&](const std::vector<Tensor>& in) {
          const Tensor seen = layout.view(in[0]);
          return c.run(ties ? seen + apart : seen, dims);
        };
        const std::vector<Tensor> in = {leaf(base)};
        if (all(isfinite(f(in))).item() == 0) continue;
        CHECK_NOTHROW(gradcheck(f, in));
        CHECK_NOTHROW(gradgradcheck(f, in));
        const std::vector<Tensor> fast = gradients(f, in), recorded = gradients(f, in, true);
        CHECK(difference(fast[0], recorded[0], 1e-13, 1e-13) == "");
      }
    }
  });
}

MT_TEST("gradients of reductions and scans have the dtype of the input", "[reduce]") {
  Rng rng(47);
  for_each_case([&](const Case& c) {
    if (!c.differentiable) return;
    const Tensor x = sample(rng, c, {4, 5}, Dtype::f64);
    const TensorFunction f = [&](const std::vector<Tensor>& in) { return c.run(in[0], {1}); };
    const Tensor expected = gradients(f, {leaf(x)})[0];
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8_e5m2}) {
      INFO(dtype_name(dtype));
      for (const bool create_graph : {false, true}) {
        const Tensor g = gradients(f, {leaf(to(x, dtype))}, create_graph)[0];
        CHECK(g.dtype() == dtype);
        if (dtype == Dtype::f32) CHECK(difference(g, to(expected, dtype), 1e-4, 1e-4) == "");
      }
    }
  });
}

}  // namespace mt::test
