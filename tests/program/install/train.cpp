// train.cpp -- a small network in C++: trains on xor in several threads, saves and loads weights
#include <mtorch/mtorch.h>

#include <cstdio>
#include <thread>
#include <vector>

struct Net {
  mt::Tensor w1 = mt::randn({16, 2}), b1 = mt::zeros({16}), w2 = mt::randn({1, 16}) / 4,
             b2 = mt::zeros({1});
  mt::Tensor operator()(const mt::Tensor& x) const {
    return mt::linear(mt::tanh(mt::linear(x, w1, b1)), w2, b2);
  }
  mt::TensorList parameters() const { return {w1, b1, w2, b2}; }
};

static Net learn(const mt::Tensor& x, const mt::Tensor& y) {
  mt::Generator own(mt::Generator::Kind::philox, 1);  // so that threads do not share a stream
  mt::generator_of_thread() = &own;
  Net net;
  for (const mt::Tensor& p : net.parameters()) p.requires_grad_();
  const mt::Adam adam(net.parameters(), {.lr = 0.05});
  for (int i = 0; i < 200; ++i) {
    adam.zero_grad();
    mt::binary_cross_entropy_with_logits(net(x), y).backward();
    adam.step();
  }
  mt::generator_of_thread() = nullptr;
  return net;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const mt::Tensor x = mt::reshape(mt::tensor({0, 0, 0, 1, 1, 0, 1, 1}), {4, 2}),
                   y = mt::reshape(mt::tensor({0, 1, 1, 0}), {4, 1});
  std::vector<Net> nets(3);
  std::vector<std::thread> threads;
  for (Net& net : nets) threads.emplace_back([&] { net = learn(x, y); });
  for (std::thread& thread : threads) thread.join();

  const mt::NoGrad no_grad;
  const mt::Tensor right = mt::all((nets[0](x) > 0) == (y > 0.5));
  bool equal = true;
  for (const Net& net : nets) equal &= mt::all(net.w1 == nets[0].w1).item() != 0;
  mt::save_safetensors(argv[1], {{"w1", nets[0].w1}, {"w2", nets[0].w2}});
  const mt::TensorFile file = mt::load_safetensors(argv[1]);
  const bool same = mt::all(file.at("w2") == nets[0].w2).item() != 0;
  std::printf("learned %g, equal %d, %d\n", right.item(), equal, same);
}
