// test_errors.cpp -- wrong calls: the text names the operation and the values, and nothing has been
// changed
#include "engine/core/device.h"
#include "engine/ops/optim.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

/// The tensors that the wrong calls are made with.
struct World {
  Tensor a = range(1, 6, 1, Dtype::f32), b = ones({4, 5}), wide = ones({5, 3}), row = ones({5}),
         point = full({}, 2);
  Tensor whole = full({2, 3}, 3, Dtype::i64), zero = zeros({3}, Dtype::i64),
         mask = ones({2, 3}, Dtype::b8);
  Tensor index = tensor({2, 3}, {0, 1, 2, 2, 1, 0}, Dtype::i64),
         far = tensor({2, 3}, {0, 1, 2, 3, 1, 0}, Dtype::i64);
  Tensor negative = tensor({2, 3}, {0, 1, 2, -1, 1, 0}, Dtype::i64),
         small = full({2}, 7, Dtype::u8);
  Tensor w = ones({2, 3}), y, stretched, none = empty({3, 0}, Dtype::f32);

  World() {
    a = view(a, {2, 3});
    w.requires_grad_();
    y = w * 2.0;
    stretched = expand(ones({1, 3}), {4, 3});
  }
  std::vector<Tensor> all() const {
    return {a,     b,   wide,     row,   point, whole, zero,      mask,
            index, far, negative, small, w,     y,     stretched, none};
  }
  /// Everything about every tensor: its bytes, version, shape and place in the graph (FNV-1a).
  uint64_t print() const {
    uint64_t h = 0xcbf29ce484222325;
    const auto mix = [&](const void* data, size_t n) {
      for (size_t i = 0; i < n; ++i)
        h = (h ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
    };
    for (const Tensor& x : all()) {
      const TensorImpl& t = *x.impl();
      mix(t.storage->data, t.storage->bytes);
      mix(&t.storage->version, sizeof t.storage->version);
      mix(t.size, sizeof(int64_t) * t.ndim);
      mix(t.stride, sizeof(int64_t) * t.ndim);
      const void* const place[] = {t.node, t.grad, t.pending, t.storage};
      mix(place, sizeof place);
      mix(&t.requires_grad, 1);
    }
    return h;
  }
};

Tensor run(const char* name, const Tensor& x, const Tensor& y) {
  const Tensor* inputs[] = {&x, &y, &y};
  return elementwise(op_named(name), inputs);
}
void run_in_place(const char* name, const Tensor& x, const Tensor& y) {
  const Tensor* inputs[] = {&x, &y, &y};
  elementwise_(op_named(name), inputs);
}

struct Wrong {
  std::function<void(const World&)> call;
  std::vector<std::string> says;
};

void check(const std::vector<Wrong>& calls) {
  const World w;
  const int64_t live = memory_use().live;
  int number = 0;
  for (const Wrong& wrong : calls) {
    const uint64_t before = w.print();
    const std::string text = error_of([&] { wrong.call(w); });
    INFO("call " << number << " said: " << text);
    ++number;
    CHECK(text != kNoError);
    for (const std::string& part : wrong.says) CHECK(contains(text, part));
    CHECK(w.print() == before);
    CHECK(memory_use().live == live);
  }
}

}  // namespace

MT_TEST("wrong elementwise calls", "[ops]") {
  check({
      {[](const World& w) { w.a + w.b; },
       {"add: ", "(2 x 3)", "(4 x 5)", "2 and 4", "dimension 1"}},
      {[](const World& w) { run("where", w.a, w.a); }, {"where: ", "bool", "float32", "x:ne(0)"}},
      {[](const World& w) { run("floor_divide", w.whole, w.zero); },
       {"floor_divide: ", "divided by 0"}},
      {[](const World& w) { run("remainder", w.whole, Tensor(0.0)); },
       {"remainder: ", "divided by 0"}},
      {[](const World& w) { run("fmod", w.whole, w.zero); }, {"fmod: ", "divided by 0"}},
      {[](const World& w) { run("pow", w.whole, Tensor(-1.0)); }, {"pow: ", "negative power"}},
      {[](const World& w) { run_in_place("add", w.w, w.a); }, {"add_: ", "leaf", "no_grad"}},
      {[](const World& w) { run_in_place("add", w.stretched, w.point); },
       {"add_: ", "expanded in dimension 1", "4 elements"}},
      {[](const World& w) { run_in_place("mul", slice(w.a, 0, 0, 1), w.a); },
       {"mul_: ", "(2 x 3)", "(1 x 3)"}},
      {[](const World& w) {
         run_in_place("mul", w.y, ones({4, 2, 3}));
       },
       {"mul_: ", "(4 x 2 x 3)", "(2 x 3)"}},
      {[](const World& w) { run_in_place("div", w.whole, w.whole); },
       {"div_: ", "float32", "int64"}},
      {[](const World& w) { run_in_place("add", w.whole, Tensor(0.5)); },
       {"add_: ", "float32", "int64"}},
      {[](const World& w) { run_in_place("add", w.a, w.b); }, {"add: ", "(2 x 3)", "(4 x 5)"}},
      {[](const World& w) { run_in_place("floor_divide", w.whole, w.zero); },
       {"floor_divide: ", "divided by 0"}},
  });
}

MT_TEST("wrong products, reductions and positions", "[matmul][reduce][index]") {
  check({
      {[](const World& w) { matmul(w.a, w.b); },
       {"matmul: inner sizes differ: (2 x 3) and (4 x 5)"}},
      {[](const World& w) { matmul(w.a, w.wide); },
       {"matmul: inner sizes differ: (2 x 3) and (5 x 3)", "w:t()?"}},
      {[](const World& w) { matmul(w.a, w.row); }, {"matmul: ", "(2 x 3) and (5)"}},
      {[](const World& w) { matmul(w.point, w.a); }, {"matmul: ", "0-d", "() and (2 x 3)"}},
      {[](const World& w) { matmul(w.mask, t(w.mask)); }, {"matmul: bool"}},
      {[](const World&) {
         matmul(ones({2, 2, 3}), ones({3, 3, 2}));
       },
       {"matmul: ", "(2)", "(3)"}},
      {[](const World& w) { linear(w.a, w.b, {}); }, {"linear: ", "(2 x 3)", "(4 x 5)"}},
      {[](const World& w) { linear(w.a, w.wide, w.zero); },
       {"linear: the bias is (3), the weight (5 x 3)"}},
      {[](const World& w) {
         sum(w.a, {0, -2});
       },
       {"sum: dimension 1 is named twice"}},
      {[](const World& w) { prod(w.a, {2}); }, {"prod: dimension 3 is out of range", "1..2"}},
      {[](const World& w) { amax(w.none, {1}); }, {"amax: (3 x 0)"}},
      {[](const World& w) { argmin(w.none); }, {"argmin: (3 x 0)"}},
      {[](const World& w) { mean(w.whole); }, {"mean: the input must be a float tensor"}},
      {[](const World& w) { gather(w.a, 1, w.a); },
       {"gather: ", "integers", "float32", "index:long()"}},
      {[](const World& w) { gather(w.a, 1, w.mask); }, {"gather: ", "bool"}},
      {[](const World& w) { gather(w.a, 1, w.far); },
       {"gather: position 3 is outside 0..2", "dimension 2 of (2 x 3)"}},
      {[](const World& w) { gather(w.a, 1, w.negative); }, {"gather: position -1 is outside 0..2"}},
      {[](const World& w) { gather(w.a, 0, w.zero); },
       {"gather: the index is (3), the tensor (2 x 3)"}},
      {[](const World& w) {
         gather(w.a, 1, zeros({3, 3}, Dtype::i64));
       },
       {"gather: the index (3 x 3) is larger than (2 x 3) in dimension 1"}},
      {[](const World& w) { scatter_add(w.a, 1, w.index, w.whole); },
       {"scatter_add: the source is int64, the tensor float32"}},
      {[](const World& w) {
         scatter_add(w.a, 1, w.index, ones({1, 3}));
       },
       {"scatter_add: the index (2 x 3)", "(1 x 3)"}},
      {[](const World& w) { scatter_add(w.a, 1, w.far, w.a); }, {"scatter_add: position 3"}},
      {[](const World& w) { index_select(w.a, 0, w.index); },
       {"index_select: the index is (2 x 3)"}},
      {[](const World& w) { index_select(w.a, 0, w.zero + 2.0); },
       {"index_select: position 2 is outside 0..1"}},
      {[](const World& w) { index_select(w.point, 0, w.zero); }, {"index_select: ", "0-d"}},
  });
}

MT_TEST("wrong shapes and views", "[shape]") {
  check({
      {[](const World& w) {
         view(w.a, {4, 2});
       },
       {"view: (2 x 3) has 6 elements, (4 x 2)"}},
      {[](const World& w) { view(t(w.a), {6}); },
       {"view: (3 x 2) with strides (1 x 3)", "(6)", "use reshape"}},
      {[](const World& w) {
         reshape(w.a, {-1, -1});
       },
       {"reshape: only one size can be -1", "(-1 x -1)"}},
      {[](const World& w) { flatten(w.a, 1, 0); }, {"flatten: ", "2", "1"}},
      {[](const World& w) { permute(w.a, {0}); }, {"permute: 1 dimensions", "(2 x 3)"}},
      {[](const World& w) {
         permute(w.a, {1, -1});
       },
       {"permute: dimension 2 is named twice"}},
      {[](const World& w) {
         permute(w.a, {0, 2});
       },
       {"permute: dimension 3 is out of range"}},
      {[](const World& w) { transpose(w.a, -3, 0); }, {"transpose: dimension -3 is out of range"}},
      {[](const World&) {
         t(ones({2, 2, 2}));
       },
       {"t: (2 x 2 x 2)", "transpose"}},
      {[](const World& w) {
         expand(w.a, {4, 3});
       },
       {"expand: dimension 1 has size 2", "(2 x 3) to (4 x 3)"}},
      {[](const World& w) { expand(w.a, {3}); }, {"expand: (2 x 3) has more dimensions than (3)"}},
      {[](const World& w) {
         expand(w.a, {-1, 2, 3});
       },
       {"expand: size -1 is negative"}},
      {[](const World& w) { slice(w.a, 1, 1, 3); },
       {"slice: 3 elements from 1 by 1", "0..2", "dimension 2"}},
      {[](const World& w) { slice(w.a, 1, 0, 2, 0); }, {"slice: the step is 0"}},
      {[](const World& w) { slice(w.a, 0, -1, 1); }, {"slice: "}},
      {[](const World& w) { slice(w.a, 0, 0, -1); }, {"slice: -1 elements"}},
      {[](const World& w) { slice(w.point, 0, 0, 1); }, {"slice: ", "0-d"}},
      {[](const World& w) { pick(w.a, 0, 2); }, {"select: position 2", "dimension 1 of (2 x 3)"}},
      {[](const World& w) { pick(w.a, 0, -3); }, {"select: position -3"}},
      {[](const World& w) { squeeze(w.a, 2); }, {"squeeze: dimension 3"}},
      {[](const World& w) { unsqueeze(w.a, 3); }, {"unsqueeze: dimension 4"}},
      {[](const World&) { cat({}); }, {"cat: at least one"}},
      {[](const World& w) {
         cat({w.a, w.b}, 0);
       },
       {"cat: tensor 2 is (4 x 5), the first (2 x 3)", "dimension 1"}},
      {[](const World& w) {
         cat({w.point, w.point});
       },
       {"cat: 0-d", "stack"}},
      {[](const World& w) {
         stack({w.a, w.row});
       },
       {"stack: tensor 2 is (5), the first (2 x 3)"}},
      {[](const World&) {
         zeros({2, -3});
       },
       {"size -3 is negative", "(2 x -3)"}},
      {[](const World&) {
         Shape s;
         for (int i = 0; i < 17; ++i) s.push(1);
       },
       {"at most 16 dimensions"}},
      {[](const World& w) {
         Tensor x = w.a;
         for (int i = 0; i < 17; ++i) x = unsqueeze(x, 0);
       },
       {"at most 16 dimensions"}},
      {[](const World&) { range(0, 1, 0, Dtype::f32); }, {"range: the step is 0"}},
      {[](const World&) { range(0, kInf, 1, Dtype::f32); }, {"range: ", "infinite or too long"}},
      {[](const World&) { device_named("gpu"); }, {"device 'gpu' is not known", "'cpu'"}},
      {[](const World&) { randperm(-1); }, {"randperm: -1"}},
  });
}

MT_TEST("wrong gradients, copies and losses", "[autograd][loss]") {
  check({
      {[](const World& w) { w.a.backward(); },
       {"backward: ", "does not depend", "requires_grad_()"}},
      {[](const World& w) { w.y.backward(); }, {"backward: the tensor is (2 x 3)", ":sum()"}},
      {[](const World& w) { w.y.backward(w.row); },
       {"backward: the gradient is (5), the tensor (2 x 3)"}},
      {[](const World& w) { w.whole.requires_grad_(); }, {"requires_grad_: ", "int64"}},
      {[](const World& w) { w.y.requires_grad_(false); }, {"requires_grad_: ", "detach"}},
      {[](const World& w) { w.a.item(); }, {"item: ", "(2 x 3)"}},
      {[](const World& w) { copy_(w.a, w.b); }, {"(4 x 5)", "(2 x 3)"}},
      {[](const World& w) { copy_(w.w, w.a); }, {"copy_: this leaf requires a gradient"}},
      {[](const World& w) { copy_(w.stretched, w.point); },
       {"copy_: the tensor is expanded in dimension 1"}},
      {[](const World& w) { fill_(w.w, 1); }, {"fill_: this leaf requires a gradient"}},
      {[](const World& w) { assign(w.a, pick(w.a, 0, 0), w.row); }, {"assignment: ", "(5)", "(3)"}},
      {[](const World& w) {
         assign(w.a, pick(w.a, 0, 0), ones({2, 3}));
       },
       {"assignment: ", "(2 x 3)", "(3)"}},
      {[](const World& w) { assign(w.w, pick(w.w, 0, 0), w.point); },
       {"assignment: this leaf requires a gradient"}},
      {[](const World& w) { mse_loss(w.a, w.b); },
       {"mse_loss: the input is (2 x 3), the target (4 x 5)"}},
      {[](const World& w) { binary_cross_entropy(w.a, w.a); },
       {"binary_cross_entropy: ", "0..1", "6", "with_logits"}},
      {[](const World& w) { binary_cross_entropy_with_logits(w.a, w.row); },
       {"binary_cross_entropy_with_logits: "}},
      {[](const World& w) { cross_entropy(w.a, w.zero); },
       {"cross_entropy: the logits are (2 x 3), the targets (3)"}},
      {[](const World& w) { cross_entropy(w.a, ones({2})); },
       {"cross_entropy: ", "integers", "float32"}},
      {[](const World& w) { cross_entropy(w.a, w.small); },
       {"cross_entropy: target 0 is 7, expected 0..2"}},
      {[](const World& w) { cross_entropy(w.w, full({2}, -1, Dtype::i64)); },
       {"cross_entropy: target 0 is -1"}},
      {[](const World& w) { softmax(w.a, 2); }, {"softmax: dimension 3"}},
      {[](const World& w) { log_softmax(w.a, -3); }, {"log_softmax: dimension -3"}},
  });
  CHECK(grad_enabled());
}

MT_TEST("positions in errors count from 1 in a call from Lua, labels as the caller says",
        "[index][loss]") {
  const World w;
  const double zero_based = cross_entropy(w.a, tensor({2}, {2, 0}, Dtype::i64)).item();
  const auto before = std::exchange(host.calls_under_way, [] { return 1; });
  const std::string gathered = error_of([&] { gather(w.a, 1, w.far); });
  const std::string picked = error_of([&] { pick(w.a, 0, 2); });
  const double same = cross_entropy(w.a, tensor({2}, {2, 0}, Dtype::i64)).item();
  host.calls_under_way = before;
  CHECK(same == zero_based);
  CHECK(contains(gathered, "position 4 is outside 1..3"));
  CHECK(contains(picked, "position 3 is outside 1..2"));
  CHECK(cross_entropy(w.a, {tensor({2}, {3, 1}, Dtype::i64), 1}).item() == zero_based);
  CHECK(contains(error_of([&] {
                   cross_entropy(w.a, {w.small, 1});
                 }),
                 "target 1 is 7, expected 1..3"));
}

MT_TEST("undefined tensors, and elements outside, are errors", "[ops][reduce][matmul][shape]") {
  const Tensor none, x = ones({2, 3});
  const std::function<void()> calls[] = {[&] { x + none; },
                                         [&] { none * 2.0; },
                                         [&] { relu(none); },
                                         [&] { x += none; },
                                         [&] { none.sum(); },
                                         [&] { matmul(x, none); },
                                         [&] { linear(none, x, {}); },
                                         [&] { reshape(none, {2}); },
                                         [&] {
                                           cat({x, none});
                                         },
                                         [&] {
                                           stack({x, none});
                                         },
                                         [&] { mse_loss(x, none); },
                                         [&] { clone(none); },
                                         [&] { softmax(none, 0); },
                                         [&] { none.backward(); },
                                         [&] { none.item(); },
                                         [&] { none.requires_grad_(); },
                                         [&] { x.grad().sum(); },
                                         [&] { none.grad(); },
                                         [&] { SGD({none}); }};
  for (const auto& call : calls) {
    CHECK(contains(error_of(call), "an undefined tensor"));
    const NoGrad no_grad;  // which has short ways of its own
    CHECK(contains(error_of(call), "an undefined tensor"));
  }
  CHECK(error_of([&] { x.at(6); }) == "at: position 6 is outside 0..5, the tensor is (2 x 3)");
  CHECK(contains(error_of([&] { x.at(-1); }), "position -1"));
  CHECK(contains(error_of([&] { pick(x, 0, 2); }), "position 2 is outside 0..1"));
}

}  // namespace mt::test
