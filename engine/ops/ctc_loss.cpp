// ctc_loss.cpp -- connectionist temporal classification: a loss of unaligned sequences, on CPUs
//
// Both recursions run in double with logarithms (Graves et al. 2006). The states s of the path
// alternate between blanks (even s) and the target's labels (odd s).
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <vector>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

const char* const kName = "ctc_loss";
constexpr double kLogZero = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return low == kLogZero ? high : high + std::log1p(std::exp(low - high));
}

/// One sequence: its log-probabilities, its target and the results.
template <class T> struct Sequence {
  const T* x;  // element (time, class) at x[time * step + class]
  int64_t step, classes, time, blank;
  const int64_t* target;
  int64_t length;

  int64_t states() const { return 2 * length + 1; }
  int64_t label(int64_t s) const { return s % 2 ? target[s / 2] : blank; }
  double at(int64_t t, int64_t s) const { return double(x[t * step + label(s)]); }
  /// Whether state s can follow state s - 2 without the blank between them.
  bool skips(int64_t s) const { return s % 2 && s > 1 && label(s) != label(s - 2); }

  /// alpha[t * states + s]: the log-probability of all paths that reach state s at time t.
  std::vector<double> forward() const {
    const int64_t n = states();
    std::vector<double> alpha(time * n, kLogZero);
    for (int64_t s = 0; s < std::min<int64_t>(n, 2) && time > 0; ++s) alpha[s] = at(0, s);
    for (int64_t t = 1; t < time && !mt_interrupted; ++t) {
      const double* previous = &alpha[(t - 1) * n];
      for (int64_t s = 0; s < n; ++s) {
        double sum = previous[s];
        if (s > 0) sum = log_add(sum, previous[s - 1]);
        if (skips(s)) sum = log_add(sum, previous[s - 2]);
        alpha[t * n + s] = sum + at(t, s);
      }
    }
    return alpha;
  }
  double loss(const std::vector<double>& alpha) const {
    if (time == 0) return length == 0 ? 0 : -kLogZero;
    const double* end = &alpha[time * states() - 1];
    return -(length > 0 ? log_add(end[0], end[-1]) : end[0]);
  }

  /// Writes scale (exp(x) - the posterior probability of each class at each time) to `gradient`.
  void backward(double scale, T* gradient) const {
    if (time == 0) return;
    const std::vector<double> alpha = forward();
    const double total = loss(alpha);
    const int64_t n = states();
    std::vector<double> beta(n, kLogZero), next(beta), log_sums;
    for (int64_t s = n - 1; s >= std::max<int64_t>(n - 2, 0); --s) beta[s] = 0;
    for (int64_t t = time - 1; t >= 0 && !mt_interrupted; --t) {
      log_sums.assign(classes, kLogZero);
      for (int64_t s = 0; s < n; ++s) {
        double& sum = log_sums[label(s)];
        sum = log_add(sum, alpha[t * n + s] + beta[s]);
      }
      T* out = gradient + t * step;
      for (int64_t c = 0; c < classes; ++c) {
        const double log_posterior = log_sums[c] + total;  // NaN where no path gives the target
        out[c] = T(scale * (std::exp(double(x[t * step + c])) - std::exp(log_posterior)));
      }
      // beta without the log-probability at its own time.
      for (int64_t s = 0; s < n; ++s) {
        double sum = beta[s] + at(t, s);
        if (s + 1 < n) sum = log_add(sum, beta[s + 1] + at(t, s + 1));
        if (s + 2 < n && skips(s + 2)) sum = log_add(sum, beta[s + 2] + at(t, s + 2));
        next[s] = sum;
      }
      beta.swap(next);
    }
  }
};

/// All targets as 0-based labels, where each begins, and the lengths: constants of a call.
struct CtcTargets {
  Tensor labels, begin, length, time;  // int64: all labels; for each sequence
  int64_t blank;
};

template <class T> Sequence<T> sequence(const Tensor& x, const CtcTargets& s, int64_t i) {
  const int64_t n = x.size(1), classes = x.size(2);
  return {x.data_as<T>() + i * classes,
          n * classes,
          classes,
          s.time.at_integer(i),
          s.blank,
          s.labels.data_as<int64_t>() + s.begin.at_integer(i),
          s.length.at_integer(i)};
}

/// Calls body(sequence, i) for all sequences of x.
void each_sequence(const Tensor& x, const CtcTargets& s, const auto& body) {
  const double work = double(x.numel()) + double(x.size(0)) * double(s.labels.numel());
  std::atomic<bool> out_of_memory{false};  // a task must not throw
  parallel(x.size(1), work > 2e4, [&](int64_t i) {
    try {
      if (x.dtype() == Dtype::f64) body(sequence<double>(x, s, i), i);
      else body(sequence<float>(x, s, i), i);
    } catch (const std::bad_alloc&) { out_of_memory = true; }
  });
  if (out_of_memory) throw std::bad_alloc();
}

const NodeType kGradient{"ctc_loss's gradient", [](Node&, const Tensor&, Tensor*) {
                           fail("ctc_loss: the second derivative is not implemented");
                         }};

struct CtcOptions {
  int64_t blank;
  bool zero_infinity;
};
void ctc_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor x0 = node.get(0), facts = node.get(1), labels = node.get(2);
  const CtcOptions options = node.kept<CtcOptions>();
  const CtcTargets constants{labels, pick(facts, 0, 0), pick(facts, 0, 1), pick(facts, 0, 2),
                             options.blank};
  const Tensor x = contiguous(x0.detach()), scale = to(g.detach(), Dtype::f64);
  const Tensor out = zeros(x.shape(), x.dtype());
  each_sequence(x, constants, [&](const auto& one, int64_t i) {
    using T = std::decay_t<decltype(one.x[0])>;
    if (options.zero_infinity && std::isinf(one.loss(one.forward()))) return;
    one.backward(scale.at(i), out.template data_as<T>() + i * x.size(2));
  });
  if (wants_grad(g, x0)) record(kGradient, out, {&g, &x0});
  dx[0] = out;
}
const NodeType kCtc{"ctc_loss", ctc_backward};

/// Checks the lengths of n sequences, each from 0 to `limit`, which `source` describes.
Tensor checked_lengths(const char* what, const Tensor& lengths, int64_t n, int64_t limit,
                       const char* source) {
  check_integers(kName, lengths, what, what);
  if (lengths.dim() > 1 || lengths.numel() != n)
    fail("{}: {} are {}; expected one for each of {}", kName, what, lengths.shape(), n);
  const Tensor cpu = contiguous(reshape(to(to(lengths, cpu_device()), Dtype::i64), {n}));
  for (int64_t i = 0; i < n; ++i)
    if (const int64_t k = cpu.at_integer(i); k < 0 || k > limit)
      fail("{}: {}[{}] is {}, it must lie in 0..{}, {}", kName, what, i + message_base(), k, limit,
           source);
  return cpu;
}

/// Converts the targets of n sequences to 0-based labels.
CtcTargets targets_of(const Index& given, const Tensor& lengths, int64_t n, int64_t classes,
                      int64_t blank) {
  const Tensor& targets = given.at;
  check_integers(kName, targets, "targets are class positions and", "targets");
  const bool joined = targets.dim() == 1;
  if (!joined && (targets.dim() != 2 || targets.size(0) != n))
    fail("{}: the targets are {}; expected ({} x length) or 1-d", kName, targets.shape(), n);
  const int64_t base = given.first;
  const int64_t columns = targets.size(-1);
  CtcTargets s;
  s.blank = blank;
  s.length = checked_lengths("target_lengths", lengths, n, columns, "the size of the targets");
  s.begin = empty({n}, Dtype::i64);
  s.labels = clone(to(to(targets, cpu_device()), Dtype::i64));
  int64_t begin = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t length = s.length.at_integer(i);
    s.begin.data_as<int64_t>()[i] = begin;
    check_interrupt();
    for (int64_t k = 0; k < length && begin + length <= s.labels.numel(); ++k) {
      int64_t& label = s.labels.data_as<int64_t>()[begin + k];
      if (label < base || label > classes - 1 + base)
        fail("{}: target {} of sequence {} is {}, expected {}..{} (labels count from {} here)",
             kName, k + base, i + base, label, base, classes - 1 + base, base);
      label -= base;
      if (label == blank)
        fail(
            "{}: target {} of sequence {} is {}, the blank; targets are the other classes, or give "
            "another blank",
            kName, k + base, i + base, label + base);
    }
    begin += joined ? length : columns;
  }
  if (joined && begin != columns)
    fail("{}: target_lengths sum to {}, the 1-d targets have {}", kName, begin, columns);
  return s;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Index& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, Position blank, Reduction how, bool zero_infinity) {
  if (!is_cpu(log_probs.device()))
    return to(ctc_loss(to(log_probs, cpu_device()), targets, input_lengths, target_lengths, blank,
                       how, zero_infinity),
              log_probs.device());
  check_float(kName, log_probs, "the log-probabilities are");
  if (log_probs.dim() != 2 && log_probs.dim() != 3)
    fail("{}: the log-probabilities are {}; expected (time x batch x classes) or (time x classes)",
         kName, log_probs.shape());
  const bool single = log_probs.dim() == 2;
  const Tensor given = to(log_probs, compute_dtype(log_probs.dtype()));
  const Tensor x = single ? unsqueeze(given, 1) : given;
  const int64_t n = x.size(1), classes = x.size(2);
  if (blank < 0 || blank >= classes)
    fail("{}: blank is {}, outside {}..{}", kName, blank < 0 ? blank.at : blank + message_base(),
         message_base(), classes - 1 + message_base());
  CtcTargets constants = targets_of(targets, target_lengths, n, classes, blank);
  constants.time = checked_lengths("input_lengths", input_lengths, n, x.size(0),
                                   "the number of time steps of the log-probabilities");
  Tensor loss = empty({n}, x.dtype());
  const Tensor dense = contiguous(x.detach());
  each_sequence(dense, constants, [&](const auto& one, int64_t i) {
    using T = std::decay_t<decltype(one.x[0])>;
    loss.template data_as<T>()[i] = T(one.loss(one.forward()));
  });
  if (wants_grad(x))
    record(kCtc, loss, {&x})
        .save(0, x, 0)
        .save(1, stack({constants.begin, constants.length, constants.time}), Node::kOther)
        .save(2, constants.labels, Node::kOther)
        .keep(CtcOptions{blank, zero_infinity});
  if (zero_infinity) loss = where(isinf(loss), 0.0, loss);
  loss = to(loss, log_probs.dtype());
  if (how == Reduction::none) return single ? squeeze(loss, 0) : loss;
  if (how == Reduction::sum) return sum(loss);
  return mean(loss / maximum(to(constants.length, loss.dtype()), 1.0));
}

}  // namespace mt
