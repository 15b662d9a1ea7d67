// neural.cpp -- what networks are made of: softmax, losses
#include "bindings/functions/functions.h"
#include "engine/ops.h"

namespace mt::lua {
namespace {

Reduction reduction(const Args& a, int i) {
  if (!a.given(i)) return Reduction::mean;
  const std::string s = a.text(i);
  if (s == "mean") return Reduction::mean;
  if (s == "sum") return Reduction::sum;
  if (s == "none") return Reduction::none;
  fail("{}: reduction is '{}'; use 'mean', 'sum' or 'none'", signature_of(a.entry()).name, s);
}


/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"softmax(x, dim)", "exp(x) / sum of exp(x) along dim.",
     [](Args& a) { return a.push(softmax(a.tensor(1), a.position(2))); }},
    {"log_softmax(x, dim)", "log of softmax, exact far out.",
     [](Args& a) { return a.push(log_softmax(a.tensor(1), a.position(2))); }},
    {"mse_loss(x, target, reduction='mean')", "The mean squared difference.",
     [](Args& a) { return a.push(mse_loss(a.tensor(1), a.tensor(2), reduction(a, 3))); }},
    {"binary_cross_entropy(x, target, reduction='mean')",
     "-log of the probability of the target, for x in 0..1.",
     [](Args& a) {
       return a.push(binary_cross_entropy(a.tensor(1), a.tensor(2), reduction(a, 3)));
     }},
    {"binary_cross_entropy_with_logits(x, target, reduction='mean')",
     "The same for raw scores, before the sigmoid.",
     [](Args& a) {
       return a.push(binary_cross_entropy_with_logits(a.tensor(1), a.tensor(2), reduction(a, 3)));
     }},
    {"cross_entropy(x, target, ignore_index=-100, reduction='mean')",
     "-log of the softmax of the target classes (from 1), for scores [n x classes].",
     [](Args& a) {
       return a.push(cross_entropy(a.tensor(1), a.tensor(2), a.integer(3, -100), reduction(a, 4)));
     }},
};

}  // namespace

void open_neural(lua_State* L) {
  add_methods(L, kMethods);
}

}  // namespace mt::lua
