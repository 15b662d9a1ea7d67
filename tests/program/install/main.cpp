// main.cpp -- a C++ program on an installed mtorch: a gradient, and an error that says what is wrong
#include <mtorch/mtorch.h>

#include <cstdio>
#include <cstdlib>

// A program that uses the namespace may define short names: these must not be ambiguous.
using namespace mt;
int a = 1, b = 2, c = 4, output = 8, nothing = 16;
struct Sum {
  int of() { return a + b + c + output + nothing; }
};

// Created before main, and before the engine's own static objects.
const mt::Tensor made_early = (mt::ones({3}) + 1.0).sum();

// A backward pass after main, when thread-local lists are destroyed; valgrind would detect a use.
struct AtExit {
  mt::Tensor x = mt::ones({2}).requires_grad_();
  ~AtExit() {
    (mt::exp(x) * x).sum().backward();
    if (!x.grad().defined()) std::abort();
  }
} const at_exit;

int main() {
  if (Sum().of() != 31 || made_early.item() != 6) return 1;
  const mt::Tensor x = mt::range(-1, 2, 1, mt::Dtype::f32).requires_grad_();  // -1 0 1 2
  mt::relu(x * 3.0).sum().backward();
  std::puts(mt::to_string(x.grad()).c_str());
  mt::SGD({x}, {.lr = 1}).step();
  if (x.at(2) != -2) return 1;
  const mt::Tensor image = mt::ones({1, 1, 4, 4}), kernel = mt::ones({1, 1, 3, 3});
  const mt::Tensor made = mt::conv("conv2d", 2, image, kernel, {}, {.padding = {1}});
  if (mt::max_pool("max_pool2d", 2, made, {.kernel = {2}}).values.sum().item() != 36) return 1;
  try {
    mt::matmul(mt::ones({2, 3}), mt::ones({4, 5}));
  } catch (const mt::Error& e) { std::puts(e.what()); }
}
