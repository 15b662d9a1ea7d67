// gradients.cpp -- the average of the processes' gradients, in buckets that are sent while backward goes on
//
// The processes agree at the start of a pass on the parameters that any of them uses. The gradients of these fill
// buckets, in the order in which backward usually computes them. A bucket is sent when it is full and those before it
// have been sent. Because other calls of mt.dist must not come between in some processes only, buckets are sent early
// only if all processes use the same parameters in the same order, and no function of the user runs meanwhile;
// otherwise the processes first agree at the end of the pass that it has succeeded everywhere.
#include <algorithm>

#include "engine/autograd/graph.h"
#include "engine/autograd/inplace.h"
#include "engine/core/device.h"
#include "engine/dist/agreement.h"
#include "engine/ops/ops.h"

namespace mt::dist {
namespace {

struct Parameter {
  std::weak_ptr<Hook> hook;  // its leaf may be gone
  Shape shape;
  Dtype dtype = Dtype::f32;
  const Device* device = nullptr;
  bool used = false;  // in this pass, or with always_the_same in the first one, by any process
  Tensor leaf() const {
    const auto held = hook.lock();
    return held ? Tensor(Ref<TensorImpl>::share(held->leaf)) : Tensor();
  }
};

/// Gradients of one dtype that are sent together.
struct Bucket {
  int64_t elements = 0;
  size_t missing = 0;  // gradients
  Tensor data;
  Job job;
};

}  // namespace

std::vector<int64_t> buckets_of(const std::vector<Gradient>& list, double bucket_mb) {
  std::vector<int64_t> buckets(list.size(), -1);
  int64_t last = -1;
  for (int d = 0; d < kDtypes; ++d) {
    double bytes = HUGE_VAL;  // of the last bucket
    for (size_t i = list.size(); i-- > 0;) {
      const Gradient& g = list[i];
      if (g.dtype != Dtype(d) || !g.used) continue;
      if (bytes >= bucket_mb * 1e6) ++last, bytes = 0;
      buckets[i] = last;
      bytes += double(g.elements * item_size(wire(g.dtype)));
    }
  }
  return buckets;
}

struct AverageGroup : GradientGroup {
  const AverageOptions options;
  const Group& group;
  std::vector<Parameter> parameters;
  bool enabled = true;
  bool has_local = false;  // some `.grad` is of passes without averages
  std::string call;
  const Device* device = nullptr;  // of all parameters, or the CPU
  // What the processes agreed on in the last pass that exchanged it.
  bool known = false, early = false;
  int64_t order = 0;
  TensorList memory;  // of the CPU, by bucket: used again where no `.grad` is in it any more
  int64_t sent_early = 0;

  AverageGroup(const AverageOptions& options, const Group& group)
      : options(options),
        group(group) {}
  std::unique_ptr<GroupPass> begin(Start) override;
  bool is_repeatable() const override { return !enabled || !has_local; }

  /// Reads what a conversion may have changed since the last pass.
  void update() {
    bool changed = call.empty();
    for (Parameter& p : parameters) {
      const Tensor leaf = p.leaf();
      if (!leaf.defined() || (p.device == &leaf.device() && p.dtype == leaf.dtype())) continue;
      p.shape = leaf.shape(), p.dtype = leaf.dtype(), p.device = &leaf.device();
      changed = true;
    }
    if (!changed) return;
    call = "backward of a net with ";
    device = parameters[0].device;
    for (const Parameter& p : parameters) {
      call += fmt::format("{}{} {}", &p == &parameters[0] ? "" : ", ", p.dtype, p.shape);
      if (p.device != device) device = &cpu_device();
    }
  }

  /// The processes agree on the used parameters; returns whether buckets may be sent early.
  bool agree_on(const std::vector<bool>& used, const Start& start) {
    bool is_new = false;
    for (size_t i = 0; i < used.size(); ++i) is_new |= used[i] && !parameters[i].used;
    const bool exchanges = !options.always_the_same || !known, differs = !exchanges && is_new;
    const bool as_before = early && start.undisturbed && start.order == order;
    const char* const note = differs ? " with other parameters than in the first pass"
                             : !exchanges && as_before ? " in the same order"
                                                       : "";
    agree("backward", group, call + note, gpu_for(*device, group));
    if (differs)
      fail(
          "backward: this pass uses other parameters than the first one; leave out {{static=true}}");
    if (!exchanges) return as_before;
    std::vector<int64_t> numbers;  // maxima over the processes
    for (const bool b : used) numbers.push_back(b), numbers.push_back(!b);
    numbers.insert(numbers.end(), {start.order, -start.order, !start.undisturbed});
    const Tensor sent = tensor(numbers.data(), {int64_t(numbers.size())});
    reduce_buffer("backward", sent, Reduction::max, group);
    const int64_t* const most = sent.data_as<const int64_t>();
    const size_t n = parameters.size();
    early = most[2 * n] == -most[2 * n + 1] && most[2 * n + 2] == 0;
    for (size_t i = 0; i < n; ++i) {
      parameters[i].used = most[2 * i] != 0;
      early = early && most[2 * i] + most[2 * i + 1] == 1;  // the same in all processes
    }
    known = true, order = start.order;
    return early;
  }
};

namespace {

class Pass : public GroupPass {
 public:
  Pass(AverageGroup& all, const std::vector<bool>& reached, bool early)
      : all_(all),
        gpu_(all.group.gpu),
        early_(early),
        places_(all.parameters.size()) {
    std::vector<Gradient> sizes;
    for (const Parameter& p : all.parameters) sizes.push_back({p.dtype, product(p.shape), p.used});
    const std::vector<int64_t> buckets = buckets_of(sizes, all.options.bucket_mb);
    for (size_t i = sizes.size(); i-- > 0;) {
      if (buckets[i] < 0) continue;
      if (buckets_.size() <= size_t(buckets[i])) buckets_.resize(buckets[i] + 1);
      Bucket& b = buckets_[buckets[i]];
      places_[i] = {int(buckets[i]), b.elements, reached[i]};
      b.elements += sizes[i].elements;
      b.missing += reached[i];
    }
  }
  ~Pass() override {
    if (!ended_) fail_everywhere();
  }

  void ready(size_t i, const Tensor& gradient) override {
    const NoGrad off;
    add(i, gradient);
    Bucket& b = buckets_[places_[i].bucket];
    if (--b.missing > 0 || !early_) return;
    const size_t before = next_;
    send_full();
    all_.sent_early += int64_t(next_ - before);
  }

  bool end(TensorList& gradients) override {
    const NoGrad off;
    if (!early_) check_success();
    for (size_t i = 0; i < places_.size(); ++i)
      if (places_[i].bucket >= 0 && !places_[i].reached) add(i, {});
    send_all();
    if (early_) check_success();
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Parameter& p = all_.parameters[i];
      if (places_[i].bucket >= 0) gradients[i] = to(to(part_of(i), p.dtype), *p.device);
    }
    return all_.has_local;
  }
  void committed() override { all_.has_local = false; }

 private:
  struct BucketPart {
    int bucket = -1;  // -1: no process uses the parameter
    int64_t at = 0;
    bool reached = false;  // by this pass
  };

  void check_success() {
    ended_ = true;
    if (!all_agree("backward", all_.group, true))
      fail("backward: it has failed in another process, so no gradient was added here");
  }
  Tensor memory_for(const Bucket& b, Dtype dtype) {
    if (gpu_) return empty({b.elements}, dtype, *gpu_);
    const size_t i = size_t(&b - buckets_.data());
    if (all_.memory.size() <= i) all_.memory.resize(buckets_.size());
    Tensor& kept = all_.memory[i];
    const bool fits = kept.defined() && kept.numel() == b.elements && kept.dtype() == dtype;
    if (!fits || kept.impl()->refs > 1 || kept.impl()->storage->refs > 1)
      kept = empty({b.elements}, dtype, cpu_device());
    return kept;
  }
  /// The memory of a gradient in its bucket.
  Tensor part_of(size_t i) {
    Bucket& b = buckets_[places_[i].bucket];
    const Parameter& p = all_.parameters[i];
    if (!b.data.defined()) b.data = memory_for(b, wire(p.dtype));
    return reshape(view_of(b.data, {product(p.shape)}, {1}, places_[i].at), p.shape);
  }
  /// Writes the share of a gradient, which may be undefined, plus that of earlier passes into the bucket.
  void add(size_t i, const Tensor& gradient) {
    const Tensor part = part_of(i), leaf = all_.parameters[i].leaf(),
                 local = all_.has_local && leaf.defined() ? leaf.grad() : Tensor();
    const Tensor sum = !local.defined()     ? gradient
                       : gradient.defined() ? mt::add(local, gradient)
                                            : local;
    if (!sum.defined()) return void(fill_(part, 0));
    const Tensor processes = scalar(size(all_.group), part.dtype());
    if (sum.dtype() != part.dtype() || &sum.device() != &part.device()) {
      copy_(part, sum);
      part /= processes;
    } else {
      const Into target(&part);
      div(sum, processes);
    }
  }
  /// Sends the next buckets, as far as they are full.
  void send_full() {
    const bool in_bfloat16 = all_.options.bfloat16_wire;
    for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
      Bucket& b = buckets_[next_];
      if (gpu_ && in_bfloat16) sum_in_bfloat16("backward", b.data, all_.group);
      else if (gpu_)
        last_on_gpus_ = start_on_gpus("backward", reduction_of(b.data, Reduction::sum), all_.group);
      else
        b.job = start_in_background([in_bfloat16, data = b.data, &group = all_.group] {
          if (in_bfloat16) sum_in_bfloat16("backward", data, group);
          else reduce_buffer("backward", data, Reduction::sum, group);
        });
    }
  }
  /// Sends the other buckets as they are, and waits for all.
  void send_all() {
    for (Bucket& b : buckets_) b.missing = 0;
    send_full();
    for (const Bucket& b : buckets_) wait_for_job("backward", b.job);
    if (gpu_) finish_on_gpus(all_.group, last_on_gpus_);
  }
  /// The pass has failed here: the others fail too, once they have the buckets for which they wait.
  void fail_everywhere() {
    try {
      const NoGrad off;
      if (early_) {
        for (size_t i = 0; i < places_.size(); ++i)
          if (places_[i].bucket >= 0) part_of(i);
        send_all();
      }
      all_agree("backward", all_.group, false);
    } catch (const std::exception& e) { set_lost(fmt::format("backward failed ({})", e.what())); }
  }

  AverageGroup& all_;
  const Gpu* const gpu_;            // that of the buckets; null: they are sent by MPI
  const bool early_;                // full buckets are sent before the end
  std::vector<BucketPart> places_;  // of the parameters
  std::vector<Bucket> buckets_;
  size_t next_ = 0;            // the bucket to be sent next
  uint64_t last_on_gpus_ = 0;  // the number of the last collective
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<GroupPass> AverageGroup::begin(Start start) {
  if (!enabled) {
    has_local = true;
    return nullptr;
  }
  const NoGrad off;
  update();
  std::vector<bool> used = start.reached;
  for (size_t i = 0; has_local && i < used.size(); ++i) {
    const Tensor leaf = parameters[i].leaf();
    used[i] = used[i] || (leaf.defined() && leaf.grad().defined());
  }
  const bool early = agree_on(used, start);
  return std::make_unique<Pass>(*this, start.reached, early);
}

GradientAverage::GradientAverage(const TensorList& parameters, const AverageOptions& options,
                                 const Group& group) {
  if (size(group) == 1 || parameters.empty()) return;
  group_ = std::make_shared<AverageGroup>(options, group);
  register_group(parameters, group_);
  for (const auto& member : group_->members) group_->parameters.push_back({member, {}});
}

void GradientAverage::enable(bool on) {
  if (group_) group_->enabled = on;
}
int64_t GradientAverage::sent_early() const { return group_ ? group_->sent_early : 0; }

}  // namespace mt::dist
