// main.cpp -- tensors for tests/program/gdb.sh to print: the printers of scripts/tools/gdb.py
#include "engine/ops/ops.h"

namespace {
volatile int shown = 0;
/// gdb's breakpoint; prints the caller's x and shape.
[[gnu::noinline]] void stop_here() { shown = shown + 1; }
[[gnu::noinline]] void show(const mt::Tensor& x, const mt::Shape& shape) {
  stop_here();
  if (shape.size() > mt::kMaxDims) x.backward();
}
}  // namespace

int main() {
  mt::Tensor x = mt::empty({2, 3}, mt::Dtype::f32);
  for (int i = 0; i < 6; ++i) x.data_as<float>()[i] = float(i) + 0.5f;
  show(x, x.shape());
  show(x.t(), x.t().strides());
  x.requires_grad_();
  show(x.sum(), {});
  mt::Tensor integers = mt::empty({40}, mt::Dtype::i64);
  for (int i = 0; i < 40; ++i) integers.data_as<int64_t>()[i] = -i;
  show(integers, {40});
  mt::Tensor half = mt::empty({2}, mt::Dtype::bf16);
  half.data_as<uint16_t>()[0] = 0x3fc0;
  half.data_as<uint16_t>()[1] = 0xc000;
  show(half, {0, 7});
  show(mt::Tensor(), mt::Shape{});
}
