// recurrent.h -- recurrent layers
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

constexpr std::array<const char*, 4> names_of(CellKind) {
  return {"rnn_tanh", "rnn_relu", "lstm", "gru"};
}
/// States after all steps [time x n x hidden], and after the last one [n x hidden]; c for an LSTM.
struct RecurrentStates {
  Tensor output, h, c;
};
/// One layer in one direction, with PyTorch's weights: weight_ih [gates * hidden x in], weight_hh
/// [gates * hidden x state], biases [gates * hidden]; for an LSTM with projections weight_hr [state
/// x hidden]. x is [time x n x in], or [total x in] where batch_sizes is the number of sequences in
/// each step, in non-increasing order. The default initial states are zeros.
RecurrentStates recurrent_layer(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                                const Tensor& bias_ih = {}, const Tensor& bias_hh = {},
                                const Tensor& h = {}, const Tensor& c = {},
                                const Tensor& weight_hr = {}, CellKind kind = CellKind::lstm,
                                bool reverse = false,
                                const std::optional<std::vector<int64_t>>& batch_sizes = {});

}  // namespace mt
