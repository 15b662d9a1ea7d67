// optim.h -- optimizers: parameters with their states, and one call that steps all of them; gradient clipping
#pragma once
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/ops/gather_scatter.h"
#include "kernels/optimizers.h"

namespace mt {

/// The description of an optimizer of kernels/optimizers.h for the engine and the bindings.
struct OptimizerRow {
  const optim::Info* info;
  int options, states, running;             // the numbers of each
  int master_weights;                       // the index of this option
  double defaults[optim::kMaxOptions];      // flags are 0 or 1
  bool pair[optim::kMaxOptions];            // in Lua a list of two with the next option
  int when[kMaxStates], start[kMaxStates];  // a state's conditional and initial option, or -1
  void (*prepare)(const double* options, optim::Progress&, double* numbers);
  const char* (*refuses)(const double* options);       // the message for invalid options
  const char* (*refuses_rows)(const double* options);  // why it takes no sparse gradient, or null
};
const OptimizerRow& optimizer_row(int rule);
/// "a finite number from 0", "two numbers from 0 to below 1": the valid values of option i.
std::string option_range(const OptimizerRow&, int i);
/// The message for options outside their ranges, or an empty string.
std::string wrong_option(const OptimizerRow&, const double* options);

/// Converts numbers to a struct of options.
template <class Options> Options options_in(const double* numbers) {
  Options o;
  std::memcpy(static_cast<void*>(&o), numbers, sizeof o);
  return o;
}

/// A sparse gradient: that of some rows of a parameter. Each row has one index.
struct RowGradient {
  Tensor parameter;
  Index rows;
  Tensor values;  // rows x columns
};

/// Updates parameters by their gradients. A handle like Tensor: copies share parameters and state.
class Optimizer {
 public:
  /// A parameter, the number of its steps with a gradient, and its state, which the first step
  /// creates with its shape and dtype (float32 for 16-bit floats).
  struct Parameter {
    Tensor value;
    optim::Progress progress;
    Tensor state[kMaxStates];
    Tensor master;  // float32, for a 16-bit parameter if the group has master_weights
  };
  struct Group {
    std::vector<Parameter> parameters;
    std::array<double, optim::kMaxOptions> options;
  };

  explicit Optimizer(int rule);
  const OptimizerRow& row() const;
  std::vector<Group>& groups() const;
  void add_group(const TensorList& parameters, const double* options) const;
  /// One step for every parameter with a gradient. If an error is thrown, nothing has changed. A sparse gradient
  /// changes only its rows of the parameter and of the state.
  void step(const std::vector<RowGradient>& sparse = {}) const;
  /// Drops the gradients of all parameters.
  void zero_grad() const;
  /// Throws Error for options outside their ranges.
  void check(const double* options) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// An optimizer with options: `mt::Adam adam(parameters, {.lr = 1e-4}); adam.step();`
template <class Rule, int number> class OptimizerOf : public Optimizer {
 public:
  using Options = typename Rule::Options;
  explicit OptimizerOf(const TensorList& parameters, const Options& options = {})
      : Optimizer(number) {
    add_group(parameters, options);
  }
  void add_group(const TensorList& parameters, const Options& options = {}) const {
    Optimizer::add_group(parameters, reinterpret_cast<const double*>(&options));
  }
  Options options(size_t group = 0) const {
    return options_in<Options>(groups().at(group).options.data());
  }
  void set_options(const Options& options, size_t group = 0) const {
    const double* const numbers = reinterpret_cast<const double*>(&options);
    check(numbers);
    std::memcpy(groups().at(group).options.data(), numbers, sizeof options);
  }
};
#define MT_OPTIMIZER(O) using O = OptimizerOf<optim::O, optim::k##O>;
MT_OPTIMIZERS(MT_OPTIMIZER)
#undef MT_OPTIMIZER

// ---- gradient clipping -------------------------------------------------------------------------

/// The p-norm of the gradients, taken as one vector, 0-d.
Tensor grad_norm(const TensorList& parameters, double p = 2);
/// Scales the gradients so that their norm, which is given or grad_norm's, is at most `max_norm`; returns the norm
/// before. `finite`: throws Error for an infinite or NaN norm, which synchronises with the device; otherwise nothing
/// does. As torch.nn.utils.clip_grad_norm_.
Tensor clip_grad_norm_(const TensorList& parameters, double max_norm, double p = 2,
                       bool finite = false, const Tensor& given = {});
/// Clamps every element of the gradients to -clip_value..clip_value.
void clip_grad_value_(const TensorList& parameters, double clip_value);

}  // namespace mt
