// gradients.cpp -- the average of the processes' gradients at the end of each backward pass, in buckets
#include <algorithm>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/dist/agreement.h"
#include "engine/ops/ops.h"

namespace mt::dist {

struct GradientAverage::State {
  struct Parameter {
    Shape shape;
    Dtype dtype;
    const Device* device;
    std::weak_ptr<Hook> hook;  // its leaf may be gone
    bool used = false;         // in the first pass of any process
    TensorImpl* leaf() const {
      const auto held = hook.lock();
      return held ? held->leaf : nullptr;
    }
  };
  std::vector<Parameter> parameters;
  AverageOptions options;
  const Group& group;
  std::string call;
  bool enabled = true, has_local = false, knows_used = false;
  const Device* device = &cpu_device();  // of all parameters, or the CPU

  /// Moves the gradients of passes without averages from `.grad` into those of this pass.
  void take_local(TensorList& gradients) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      TensorImpl* const leaf = parameters[i].leaf();
      if (!leaf || !leaf->grad) continue;
      const Tensor owner(Ref<TensorImpl>::share(leaf)), before = owner.grad();
      gradients[i] = gradients[i].defined() ? add(before, gradients[i]) : before;
      owner.set_grad({});
    }
    has_local = false;
  }

  /// Finds the parameters for which any process has a gradient.
  void find_used(const TensorList& gradients) {
    bool unknown = !options.always_the_same || !knows_used;
    bool is_new = false;
    for (size_t i = 0; i < gradients.size(); ++i)
      is_new |= gradients[i].defined() && !parameters[i].used;
    const std::string text =
        !unknown && is_new ? call + " with other parameters than in the first pass" : call;
    agree("backward", group, text, gpu_for(*device, group));
    if (!unknown && is_new)
      fail(
          "backward: this pass uses other parameters than the first one; leave out {{static=true}}");
    if (!unknown) return;
    std::vector<int64_t> computed;
    for (const Tensor& g : gradients) computed.push_back(g.defined());
    const Tensor flags = tensor(computed.data(), {int64_t(computed.size())});
    reduce_buffer("backward", flags, Reduction::max, group);
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i].used = flags.data_as<const int64_t>()[i] != 0;
    knows_used = true;
  }

  /// Averages the gradients of some parameters of one dtype in one buffer.
  void average(TensorList& gradients, const std::vector<size_t>& places) const {
    TensorList bucket;
    for (const size_t i : places) {
      const Parameter& p = parameters[i];
      bucket.push_back(gradients[i].defined() ? gradients[i] : zeros(p.shape, p.dtype, *p.device));
    }
    // Not shared, even with one gradient: other processes may have more.
    const Buffer buffer(bucket, group, wire(bucket[0].dtype(), group), false);
    if (options.bfloat16_wire) average_in_bfloat16("backward", buffer.data, group);
    else reduce_buffer("backward", buffer.data, Reduction::mean, group);
    size_t k = 0;
    buffer.each(bucket, [&](const Tensor& g, const Tensor& part) {
      gradients[places[k++]] = to(to(part, g.dtype()), g.device());
    });
  }

  void end_pass(TensorList& gradients) {
    if (!enabled) {
      has_local = true;
      return;
    }
    const NoGrad off;
    if (has_local) take_local(gradients);
    find_used(gradients);
    for (int d = 0; d < kDtypes; ++d) {
      std::vector<size_t> places;
      double bytes = 0;
      for (size_t i = parameters.size();
           i-- > 0;) {  // in the order in which backward computes them
        const Parameter& p = parameters[i];
        if (p.dtype != Dtype(d) || !p.used) continue;
        places.push_back(i);
        bytes += double(product(p.shape) * item_size(wire(p.dtype)));
        if (bytes < options.bucket_mb * 1e6) continue;
        average(gradients, places);
        places.clear(), bytes = 0;
      }
      if (!places.empty()) average(gradients, places);
    }
  }
};

GradientAverage::GradientAverage(const TensorList& parameters, const AverageOptions& options,
                                 const Group& group)
    : state_(new State{{}, options, group, {}}) {
  if (size(group) == 1) return;
  state_->call = "backward of a net with " + described(parameters);
  register_group_hook(parameters, [state = state_](TensorList& g) { state->end_pass(g); });
  for (const Tensor& p : parameters)
    state_->parameters.push_back({p.shape(), p.dtype(), &p.device(), p.impl()->hooks->back()});
  if (std::ranges::all_of(parameters,
                          [&](auto& p) { return &p.device() == &parameters[0].device(); }))
    state_->device = &parameters[0].device();
}

void GradientAverage::enable(bool on) { state_->enabled = on; }

}  // namespace mt::dist
