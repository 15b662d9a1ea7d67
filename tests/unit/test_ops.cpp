// test_ops.cpp -- every elementwise operation of the list x dtype x layout; no operation's name
// stands here
#include "kernels/cpu/pool/parallel.h"
#include "tests/unit/support.h"

namespace mt::test {

namespace {

/// One operation with its parameters: as declared, or (`variant` 1) with others, so that each of
/// them acts.
struct Case {
  int op;
  OpRow row;
  double params[op::kMaxParams] = {};

  Case(int op_, int variant) : op(op_), row(op_row(op_)) {
    for (int i = 0; i < row.params; ++i) {
      const double v = row.info->params[i].value;
      params[i] = variant == 0    ? v
                  : std::isinf(v) ? std::copysign(1.3, v)
                  : std::isnan(v) ? 0.3  // nothing by default
                                  : 1.5 * v + 0.25;
    }
  }
  Tensor run(const std::vector<Tensor>& in) const {
    const Tensor* inputs[3] = {};
    for (int i = 0; i < row.inputs; ++i) inputs[i] = &in[size_t(i)];
    return elementwise(op, inputs, params);
  }
  void run_in_place(const std::vector<Tensor>& in) const {
    const Tensor* inputs[3] = {};
    for (int i = 0; i < row.inputs; ++i) inputs[i] = &in[size_t(i)];
    elementwise_(op, inputs, params);
  }
  TensorFunction function() const {
    return [this](const std::vector<Tensor>& in) { return run(in); };
  }
  bool is_mask(int input) const { return row.mask_first && input == 0; }
  Dtype input_dtype(int input, Dtype d) const { return is_mask(input) ? Dtype::b8 : d; }
  bool takes(Dtype d) const { return row.info->accepts != op::Accepts::integer || !is_float(d); }
  /// A dtype that it takes: 4 or 8 bytes wide, a float if possible.
  Dtype narrow() const { return takes(Dtype::f32) ? Dtype::f32 : Dtype::i32; }
  Dtype wide() const { return takes(Dtype::f64) ? Dtype::f64 : Dtype::i64; }
};

/// Calls `body(Case)` for every operation, with its parameters as declared and otherwise.
template <class Body> void for_each_case(const Body& body) {
  for (int op = 0; op < kOps; ++op)
    for (int variant = 0; variant < (op_row(op).params ? 2 : 1); ++variant) {
      const Case c(op, variant);
      INFO("operation " << c.row.info->name << ", parameters " << c.params[0] << " "
                        << c.params[1]);
      CHECK(error_of([&] { body(c); }) == kNoError);
    }
}

bool near_whole(double x) { return std::fabs(x - std::round(x)) < 0.01; }

/// Numbers for all inputs of one element, exact in float32, away from kinks: whole numbers, ties,
/// whole quotients, and the places where a parameter bends the curve.
std::vector<double> sample(Rng& rng, const Case& c) {
  for (;;) {
    double x[3] = {};
    bool smooth = true;
    for (int i = 0; i < c.row.inputs; ++i) {
      x[i] = double(float(rng.uniform(c.row.info->domain.lo, c.row.info->domain.hi)));
      smooth &= !near_whole(x[i]);
      for (int k = 0; k < c.row.params; ++k) smooth &= !(std::fabs(x[i] - c.params[k]) <= 0.01);
      for (int k = 0; k < i; ++k)
        smooth &= std::fabs(x[i] - x[k]) > 0.01 && !near_whole(x[k] / x[i]);
    }
    if (c.row.mask_first) x[0] = double(rng.below(2));
    if (smooth) return {x, x + c.row.inputs};
  }
}

/// One tensor of each input's samples, contiguous.
std::vector<Tensor> sample_inputs(Rng& rng, const Case& c, const Shape& shape, Dtype dtype) {
  std::vector<Tensor> in;
  for (int i = 0; i < c.row.inputs; ++i) in.push_back(empty(shape, c.input_dtype(i, dtype)));
  for (int64_t k = 0; k < in[0].numel(); ++k) {
    const std::vector<double> v = sample(rng, c);
    for (int i = 0; i < c.row.inputs; ++i) put(in[size_t(i)], k, v[size_t(i)]);
  }
  return in;
}

/// The bases of inputs that lie in the layouts first, first + shift, .. (mod all), with samples
/// that are smooth where they meet: operand 0 is drawn in place, the others are drawn again until
/// each element of the result is smooth.
struct Laid {
  std::vector<Tensor> base;
  std::vector<const Layout*> layout;

  std::vector<Tensor> views(const std::vector<Tensor>& of) const {
    std::vector<Tensor> v;
    for (size_t i = 0; i < of.size(); ++i) v.push_back(layout[i]->view(of[i]));
    return v;
  }
  std::vector<Tensor> views() const { return views(base); }
};

bool all_smooth(const Case& c, const std::vector<Tensor>& in) {
  for (int64_t k = 0; k < in[0].numel(); ++k)
    for (int i = c.row.mask_first ? 1 : 0; i < c.row.inputs; ++i)
      for (int j = c.row.mask_first ? 1 : 0; j < i; ++j) {
        const double x = in[size_t(i)].at(k), y = in[size_t(j)].at(k);
        if (std::fabs(x - y) < 0.01 || near_whole(y / x)) return false;
      }
  return true;
}

/// Input i lies in the layout first + i * shift (mod all). `smooth`: drawn again until no element
/// of the result is near a kink.
Laid lay_out(Rng& rng, const Case& c, const std::vector<Layout>& layouts, size_t first,
             size_t shift, Dtype dtype, bool smooth) {
  Laid laid;
  for (int i = 0; i < c.row.inputs; ++i) {
    laid.layout.push_back(&layouts[(first + size_t(i) * shift) % layouts.size()]);
    laid.base.push_back({});
  }
  do {
    for (int i = 0; i < c.row.inputs; ++i)
      laid.base[size_t(i)] = sample_inputs(rng, c, laid.layout[size_t(i)]->base, dtype)[size_t(i)];
  } while (smooth && !all_smooth(c, laid.views()));
  return laid;
}

/// Calls `body(laid)` for every layout of the first input beside the others in the same and in
/// other layouts.
template <class Body>
void for_each_layout(Rng& rng, const Case& c, int64_t rows, int64_t columns, Dtype dtype,
                     bool smooth, const Body& body) {
  const std::vector<Layout> matrices = matrix_layouts(rows, columns), odd = odd_layouts();
  for (size_t first = 0; first < matrices.size(); ++first)
    for (size_t shift = 0; shift < (c.row.inputs > 1 ? 3 : 1); ++shift) {
      INFO("layout " << matrices[first].name << ", shift " << shift);
      CHECK(error_of([&] { body(lay_out(rng, c, matrices, first, shift, dtype, smooth)); }) ==
            kNoError);
    }
  for (size_t i = 0; i < odd.size(); ++i) {
    INFO("layout " << odd[i].name);
    CHECK(error_of([&] { body(lay_out(rng, c, odd, i, 0, dtype, smooth)); }) == kNoError);
  }
}

std::vector<Tensor> leaves(const Case& c, const std::vector<Tensor>& in) {
  std::vector<Tensor> out;
  for (int i = 0; i < c.row.inputs; ++i)
    out.push_back(c.is_mask(i) || (c.row.flat >> i & 1) ? in[size_t(i)] : leaf(in[size_t(i)]));
  return out;
}

}  // namespace

MT_TEST("each operation gives the values computed elsewhere", "[ops]") {
  for (int op = 0; op < kOps; ++op) {
    const Case c(op, 0);
    for (int k = 0; k < op::kPoints; ++k)
      for (int d = 0; d < kDtypes; ++d) {
        const Dtype dtype = Dtype(d);
        if (!c.takes(dtype)) continue;
        const double* const given = c.row.info->domain.in[k];
        INFO(c.row.info->name << " of " << given[0] << " " << given[1] << " " << given[2] << " as "
                              << dtype_name(dtype));
        std::vector<Tensor> in;
        bool fits = true;
        for (int i = 0; i < c.row.inputs; ++i) {
          in.push_back(scalar(given[i], c.input_dtype(i, dtype)));
          fits &= in.back().item() == given[i];
        }
        if (!fits) continue;
        const Tensor y = c.run(in);
        double expected = c.row.info->results[k];
        if (y.dtype() == Dtype::u8) expected = double(uint8_t(int64_t(expected)));
        if (y.dtype() == Dtype::b8 && !c.takes(Dtype::f32)) continue;  // shorter than the points
        const double error = y.dtype() == Dtype::f64 ? 1e-14
                             : is_float(y.dtype())   ? 3 * 0x1p-23
                                                     : 0;
        CHECK(is_result(y.item(), expected, error, y.dtype()));
      }
  }
}

MT_TEST("an operation answers in the dtype that it declares", "[ops]") {
  Rng rng(11);
  for_each_case([&](const Case& c) {
    for (int d = 0; d < kDtypes; ++d) {
      const Dtype dtype = Dtype(d);
      INFO("dtype " << dtype_name(dtype));
      const std::vector<Tensor> in = sample_inputs(rng, c, {5}, dtype);
      if (!c.takes(dtype)) {
        CHECK(contains(error_of([&] { c.run(in); }), "numbers have no "));
        continue;
      }
      std::vector<Tensor> safe;  // integers from 1 on, so that they divide
      for (const Tensor& x : in)
        safe.push_back(is_float(x.dtype()) ? x : to(full({5}, 1, Dtype::u8), x.dtype()));
      bool fraction = false;  // which would not fit into an integer
      for (double p : c.params) fraction |= std::isfinite(p) && p != std::round(p);
      const op::Accepts accepts = c.row.info->accepts;
      const Dtype computed = is_float(dtype)                                        ? dtype
                             : accepts == op::Accepts::real || fraction             ? Dtype::f32
                             : accepts == op::Accepts::number && dtype == Dtype::b8 ? Dtype::i64
                                                                                    : dtype;
      if (dtype == Dtype::b8 && contains(error_of([&] { c.run(safe); }), "bool tensor"))
        continue;  // minus of bools is refused
      CHECK(c.run(safe).dtype() == (c.row.answers_bool ? Dtype::b8 : computed));
      std::vector<Tensor> converted;
      for (int i = 0; i < c.row.inputs; ++i)
        converted.push_back(to(safe[size_t(i)], c.input_dtype(i, computed)));
      CHECK(difference(c.run(safe), c.run(converted)) == "");
    }
  });
}

MT_TEST("integers give what float64 gives", "[ops]") {
  Rng rng(12);
  for_each_case([&](const Case& c) {
    if (c.row.info->accepts == op::Accepts::real || !c.takes(Dtype::f64)) return;
    for (const Dtype dtype : {Dtype::u8, Dtype::i32, Dtype::i64}) {
      INFO("dtype " << dtype_name(dtype));
      const bool negative = c.row.info->domain.lo < 0 && dtype != Dtype::u8;
      std::vector<Tensor> in, wide;
      for (int i = 0; i < c.row.inputs; ++i) {
        in.push_back(random_tensor(rng, {300}, c.input_dtype(i, dtype), negative ? -5 : 1, 6));
        wide.push_back(c.is_mask(i) ? in.back() : to(in.back(), Dtype::f64));
      }
      Case whole = c;  // parameters are cut to whole numbers for integers
      for (double& p : whole.params) p = std::trunc(p);
      const Tensor expected = whole.run(wide);
      const Tensor wrapped = c.row.answers_bool ? expected : to(to(expected, Dtype::i64), dtype);
      CHECK(difference(whole.run(in), wrapped) == "");
    }
  });
}

MT_TEST("mixed dtypes are promoted before the operation", "[ops]") {
  Rng rng(13);
  for_each_case([&](const Case& c) {
    if (c.row.inputs != 2) return;
    for (int a = 0; a < kDtypes; ++a)
      for (int b = 0; b < kDtypes; ++b) {
        const Tensor x = random_tensor(rng, {40}, Dtype(a), 1, 6),
                     y = random_tensor(rng, {40}, Dtype(b), 1, 6);
        const Tensor one = to(ones({40}), y.dtype());
        const Dtype both = promote(x.dtype(), y.dtype());
        INFO(dtype_name(x.dtype()) << " with " << dtype_name(y.dtype()));
        if (!c.takes(both)) continue;
        const Tensor right =
            y.dtype() == Dtype::b8 ? one : y;  // a false would divide integers by 0
        if (both == Dtype::b8 && contains(error_of([&] { c.run({x, right}); }), "bool tensor"))
          continue;
        CHECK(difference(c.run({x, right}), c.run({to(x, both), to(right, both)})) == "");
      }
  });
}

MT_TEST("each layout gives the bits of a contiguous clone", "[ops]") {
  Rng rng(14);
  for_each_case([&](const Case& c) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::f8_e4m3fn,
                              Dtype::f8_e5m2, Dtype::u8, Dtype::i64}) {
      if (!is_float(dtype) && c.row.info->accepts == op::Accepts::real && c.row.inputs > 1)
        continue;
      if (!c.takes(dtype)) continue;
      INFO("dtype " << dtype_name(dtype));
      for_each_layout(rng, c, 21, 45, dtype, false, [&](const Laid& laid) {
        std::vector<Tensor> strided = laid.views(), dense;
        if (!is_float(dtype))
          for (int i = 0; i < c.row.inputs; ++i)
            if (!c.is_mask(i))
              strided[size_t(i)] = laid.layout[size_t(i)]->view(clone(laid.base[size_t(i)] + 1.0));
        for (const Tensor& x : strided) dense.push_back(clone(x));
        CHECK(difference(c.run(strided), c.run(dense)) == "");
      });
    }
  });
}

MT_TEST("float32 agrees with float64", "[ops]") {
  Rng rng(15);
  for_each_case([&](const Case& c) {
    if (!c.takes(Dtype::f32)) return;
    const std::vector<Tensor> in = sample_inputs(rng, c, {2000}, Dtype::f64);
    std::vector<Tensor> narrow;
    for (int i = 0; i < c.row.inputs; ++i)
      narrow.push_back(to(in[size_t(i)], c.input_dtype(i, Dtype::f32)));
    Case rounded = c;  // the parameters that float32 sees
    for (double& p : rounded.params) p = double(float(p));
    const Tensor y = c.run(narrow), expected = rounded.run(in);
    if (c.row.answers_bool) {
      CHECK(difference(y, expected) == "");
      return;
    }
    CHECK(y.dtype() == Dtype::f32);
    if (!c.row.differentiable) {
      CHECK(difference(y, expected, 0x1p-22) == "");
      return;
    }
    // Two units in the last place, and what an error of one in the inputs makes of the result.
    const std::vector<Tensor> at = leaves(rounded, in);
    rounded.run(at).backward(ones(expected.shape(), Dtype::f64));
    for (int64_t k = 0; k < y.numel(); ++k) {
      double moved = 0;
      for (const Tensor& x : at)
        if (x.grad().defined()) moved += std::fabs(x.at(k) * x.grad().at(k));
      const double off = std::fabs(y.at(k) - expected.at(k));
      if (off > 0x1p-22 * std::fabs(expected.at(k)) + 0x1p-23 * moved)
        FAIL_CHECK("at " << at[0].at(k) << " off by " << off);
    }
    const std::vector<Tensor> g32 = gradients(c.function(), leaves(c, narrow)),
                              g64 = gradients(rounded.function(), leaves(rounded, in));
    for (size_t i = 0; i < g32.size(); ++i) {
      INFO("gradient " << i);
      CHECK(difference(g32[i], g64[i], 64 * 0x1p-24, 64 * 0x1p-24) == "");
    }
  });
}

/// Whether each node behind x is newer than its inputs.
bool ordered(const Tensor& x) {
  std::vector<Node*> nodes{x.impl()->node};
  for (size_t i = 0; i < nodes.size(); ++i)
    for (int k = 0; k < nodes[i]->inputs; ++k)
      if (Node* input = nodes[i]->input(k).node.get()) {
        if (input->sequence >= nodes[i]->sequence) return false;
        nodes.push_back(input);
      }
  return true;
}

MT_TEST("views that are older than a change in place take part as newer ones do", "[ops]") {
  Rng rng(17);
  for_each_case([&](const Case& c) {
    if (!c.row.differentiable) return;
    const std::vector<Tensor> at = leaves(c, sample_inputs(rng, c, {6}, Dtype::f64));
    // The base is changed before or after the view is taken.
    const auto through = [&](bool older) {
      return [&c, older](const std::vector<Tensor>& in) {
        std::vector<Tensor> seen;
        Tensor rest = scalar(0, Dtype::f64);
        for (size_t i = 0; i < in.size(); ++i) {
          if (c.is_mask(int(i))) {
            seen.push_back(in[i]);
            continue;
          }
          const Tensor half = in[i] / 2.0;
          Tensor v = older ? view(half, {6}) : half;
          half += half;
          seen.push_back(older ? v : view(half, {6}));
          // Beside one that is up to date; where there are more inputs the operation has such.
          rest = rest + sum(in[i] * (in.size() == 1 ? seen[i] : in[i]) * in[i]);
        }
        const Tensor y = c.run(seen) + rest;
        CHECK(ordered(y));
        return y;
      };
    };
    for (const bool create_graph : {false, true}) {
      const std::vector<Tensor> a = gradients(through(true), at, create_graph),
                                b = gradients(through(false), at, create_graph);
      for (size_t i = 0; i < a.size(); ++i) CHECK(difference(a[i], b[i], 1e-13, 1e-13) == "");
    }
    std::vector<Tensor> wanted;
    for (const Tensor& x : at)
      if (x.requires_grad()) wanted.push_back(x);
    const GradOptions create{false, true, true};
    std::vector<Tensor> second[2];
    for (const bool older : {true, false}) {
      Tensor all = scalar(0, Dtype::f64);
      for (const Tensor& g : grad({sum(through(older)(at))}, wanted, {}, create))
        all = all + sum(g * g);
      second[older] = grad({all}, wanted, {}, {false, false, true});
    }
    for (size_t i = 0; i < wanted.size(); ++i)
      CHECK(difference(second[1][i], second[0][i], 1e-12, 1e-12) == "");
  });
}

MT_TEST("gradients agree with finite differences in every layout", "[ops]") {
  Rng rng(16);
  for_each_case([&](const Case& c) {
    if (!c.row.differentiable) return;
    for_each_layout(rng, c, 2, 3, Dtype::f64, true, [&](const Laid& laid) {
      const TensorFunction f = [&](const std::vector<Tensor>& in) { return c.run(laid.views(in)); };
      const std::vector<Tensor> in = leaves(c, laid.base);
      gradcheck(f, in);
      const std::vector<Tensor> fast = gradients(f, in), recorded = gradients(f, in, true);
      for (size_t i = 0; i < fast.size(); ++i)
        CHECK(difference(fast[i], recorded[i], 1e-13, 1e-13) == "");
    });
  });
}

MT_TEST("gradients of gradients agree with finite differences", "[ops]") {
  Rng rng(17);
  for_each_case([&](const Case& c) {
    if (!c.row.differentiable) return;
    for_each_layout(rng, c, 2, 2, Dtype::f64, true, [&](const Laid& laid) {
      const TensorFunction f = [&](const std::vector<Tensor>& in) { return c.run(laid.views(in)); };
      gradgradcheck(f, leaves(c, laid.base));
    });
  });
}

MT_TEST("an operation that is not differentiable leaves the graph", "[ops]") {
  Rng rng(18);
  for_each_case([&](const Case& c) {
    if (!c.takes(Dtype::f64)) return;
    const Tensor y = c.run(leaves(c, sample_inputs(rng, c, {3}, Dtype::f64)));
    CHECK(y.requires_grad() == c.row.differentiable);
    CHECK(y.is_leaf() != c.row.differentiable);
  });
}

MT_TEST("bits do not depend on the number of threads", "[ops]") {
  Rng rng(19);
  const int before = cpu_threads();
  const int64_t n = 100003;
  const Shape base{n, 2};
  for_each_case([&](const Case& c) {
    std::vector<Tensor> in = sample_inputs(rng, c, {997}, c.narrow());
    for (Tensor& x : in) {
      const Tensor many = reshape(expand(x, {n / 997 + 1, 997}), {-1});
      const Tensor two = empty(base, x.dtype());
      copy_(pick(two, 1, 0), slice(many, 0, 0, n));
      copy_(pick(two, 1, 1), slice(many, 0, 0, n));
      x = two;
    }
    for (const bool strided : {false, true}) {
      INFO((strided ? "strided" : "contiguous"));
      const TensorFunction f = [&](const std::vector<Tensor>& whole) {
        std::vector<Tensor> column;
        for (const Tensor& x : whole)
          column.push_back(strided ? pick(x, 1, 1) : slice(reshape(x, {-1}), 0, 0, n));
        return c.run(column);
      };
      Tensor value;
      std::vector<Tensor> gradient;
      for (const int threads : {1, strided ? 8 : 3}) {
        INFO("threads " << threads);
        set_cpu_threads(threads);
        const Tensor y = f(in);
        if (!value.defined()) value = y;
        CHECK(difference(y, value) == "");
        if (!c.row.differentiable) continue;
        const std::vector<Tensor> g = gradients(f, leaves(c, in));
        if (gradient.empty()) gradient = g;
        for (size_t i = 0; i < g.size(); ++i) CHECK(difference(g[i], gradient[i]) == "");
      }
      set_cpu_threads(before);
    }
  });
}

MT_TEST("the form in place writes what the plain form returns", "[ops]") {
  Rng rng(20);
  for_each_case([&](const Case& c) {
    const std::vector<Layout> layouts = matrix_layouts(5, 37);
    for (size_t l = 0; l < 4; ++l) {  // expanded targets are refused
      INFO("layout " << layouts[l].name);
      Laid laid = lay_out(rng, c, layouts, l, 1, c.narrow(), false);
      const std::vector<Tensor> in = laid.views();
      const Tensor expected = c.run(in), base_before = clone(laid.base[0]),
                   target_before = clone(in[0]);
      if (promote(expected.dtype(), in[0].dtype()) != in[0].dtype()) {
        CHECK(contains(error_of([&] { c.run_in_place(in); }), std::string(c.row.info->name) + "_"));
        CHECK(difference(in[0], target_before) == "");
        continue;
      }
      const uint32_t version = in[0].impl()->storage->version;
      c.run_in_place(in);
      CHECK(in[0].impl()->storage->version > version);
      CHECK(difference(in[0], to(expected, in[0].dtype())) == "");
      copy_(in[0], target_before);  // and nothing beside the view was touched
      CHECK(difference(laid.base[0], base_before) == "");
    }
    if (c.row.mask_first) return;
    const Tensor square = sample_inputs(rng, c, {40, 40}, c.narrow())[0];
    std::vector<Tensor> in{square};
    while (int(in.size()) < c.row.inputs) in.push_back(transpose(square, 0, 1));
    const Tensor expected = c.run(in);
    c.run_in_place(in);
    CHECK(difference(square, to(expected, c.narrow())) == "");
  });
}

MT_TEST("the form in place has the same gradient", "[ops]") {
  Rng rng(21);
  for_each_case([&](const Case& c) {
    if (!c.row.differentiable || c.row.mask_first) return;
    const std::vector<Tensor> in = leaves(c, sample_inputs(rng, c, {2, 3}, Dtype::f64));
    const TensorFunction plain = [&](const std::vector<Tensor>& x) {
      std::vector<Tensor> y{clone(x[0])};
      for (size_t i = 1; i < x.size(); ++i) y.push_back(x[i]);
      return c.run(y);
    };
    const TensorFunction in_place = [&](const std::vector<Tensor>& x) {
      std::vector<Tensor> y{clone(x[0])};
      for (size_t i = 1; i < x.size(); ++i) y.push_back(x[i]);
      c.run_in_place(y);
      return y[0];
    };
    std::vector<Tensor> expected = gradients(plain, in), got;
    const std::string error = error_of([&] { got = gradients(in_place, in); });
    if (got.empty()) {  // an input that its own gradient needs is gone: that must be said
      CHECK(contains(error, "changed in place"));
      for (const Tensor& x : in) x.set_grad({});
      return;
    }
    for (size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], expected[i]) == "");
  });
}

MT_TEST("a number is a tensor of that value, and adopts the other's dtype", "[ops]") {
  Rng rng(22);
  for_each_case([&](const Case& c) {
    if (c.row.inputs < 2 || c.row.mask_first) return;
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::u8})
      for (const double number : {2.0, 0.75}) {
        INFO("number " << number << " beside " << dtype_name(dtype));
        const Dtype both = is_float(dtype) || number == 2 ? dtype : Dtype::f32;
        if (!c.takes(both)) continue;
        std::vector<Tensor> in;
        for (int i = 0; i < c.row.inputs; ++i)
          in.push_back(random_tensor(rng, {4, 3}, dtype, 1, 6));
        for (int i = 0; i < c.row.inputs; ++i) {
          std::vector<Tensor> short_form = in, long_form = in;
          short_form[size_t(i)] = Tensor(number);
          long_form[size_t(i)] = full({4, 3}, number, both);
          CHECK(difference(c.run(short_form), c.run(long_form)) == "");
        }
      }
  });
}

MT_TEST("broadcasting is expanding", "[ops]") {
  Rng rng(23);
  const std::vector<Shape> shapes = {{3, 1, 4}, {2, 1}, {}, {1}, {4}, {3, 2, 4}, {1, 2, 1}};
  for_each_case([&](const Case& c) {
    if (c.row.inputs < 2) return;
    for (size_t a = 0; a < shapes.size(); ++a)
      for (size_t b = 0; b < shapes.size(); ++b) {
        std::vector<Tensor> in, expanded;
        Shape all;
        for (int i = 0; i < c.row.inputs; ++i) {
          in.push_back(sample_inputs(rng, c,
                                     shapes[i == 0   ? a
                                            : i == 1 ? b
                                                     : (a + b) % shapes.size()],
                                     c.wide())[size_t(i)]);
          all = broadcast("test", all, in.back().shape());
        }
        for (const Tensor& x : in) expanded.push_back(clone(expand(x, all)));
        INFO(to_string(in[0].shape()) << " with " << to_string(in[1].shape()));
        CHECK(difference(c.run(in), c.run(expanded)) == "");
        if (!c.row.differentiable) continue;
        const std::vector<Tensor> at = leaves(c, in), wide = leaves(c, expanded);
        const std::vector<Tensor> g = gradients(c.function(), at),
                                  full_g = gradients(c.function(), wide);
        size_t k = 0;
        for (const Tensor& x : at) {
          if (!x.requires_grad()) continue;
          CHECK(difference(g[k], sum_to(full_g[k], x.shape()), 1e-14, 1e-14) == "");
          ++k;
        }
      }
  });
}

}  // namespace mt::test
