// optimizers.h -- every optimizer: its options, its state, its step, help and test points in one struct
//
// `prepare` computes, in double, the numbers of a step that all elements of a parameter share;
// `step` updates one element w from its gradient g and its state. Before `step`, for all
// optimizers: g is negated if `maximize` is set, and `weight_decay` is added to g or applied to w
// itself (`decoupled_weight_decay`, or a struct that is always `decoupled`).
// To add an optimizer: write its options, its struct, and its entry in the list at the end of the file.
// An optimizer with `refuses_rows` takes sparse gradients, unless that returns a sentence for its options.
#pragma once
#include <utility>

#include "kernels/device.h"
#include "kernels/math/math.h"
#include "kernels/math/number.h"

namespace mt::optim {
inline namespace MT_ISA {

// ---- the declarations of an optimizer -----------------------------------------------------------

/// A boolean option, stored as a double.
struct Flag {
  double on = 0;
  constexpr Flag(bool value = false) : on(value) {}
  constexpr operator bool() const { return on != 0; }
};

/// An option's name and range; `below`: the upper limit is excluded. Consecutive options with the
/// same name are a list in Lua (betas).
struct Option {
  const char* name = nullptr;
  double least = 0, most = math::kInfinity;
  bool below = false, flag = false;
};
constexpr Option flag(const char* name) { return {name, 0, 1, false, true}; }
constexpr Option kBeta{"betas", 0, 1, true};
/// An option of every optimizer: 16-bit parameters get a float32 copy, which the steps update.
constexpr Option kMaster = flag("master_weights");

/// A tensor that is kept for each parameter: the option that enables it (`when`), and the option
/// for its initial value instead of 0 (`start`).
struct State {
  const char* name = nullptr;
  const char* when = nullptr;
  const char* start = nullptr;
};

constexpr int kMaxOptions = 9, kMaxRunning = 2;

/// `options` in the order of the struct's Options; `running` numbers per parameter, initially 1.
struct Info {
  const char* name;
  const char* doc;
  Option options[kMaxOptions];
  State states[kMaxStates];
  const char* running[kMaxRunning] = {};
};

/// The progress of a parameter: steps including this one; running numbers; whether a state is new.
struct Progress {
  double step = 0, running[kMaxRunning] = {1, 1};
  bool first = false;
};

/// w, initially 1, after 1, 2 and 9 steps of torch.optim with gradients 0.5, -1.25, 2, 0.5, ..
template <class Options> struct Point {
  Options options;
  double value[3];
};

/// Whether state k exists.
constexpr bool has(unsigned states, int k) { return states >> k & 1; }

inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline double sqrt(double x) { return __builtin_sqrt(x); }

/// Adam's running means of the gradient and of its square, which are stored and returned.
template <class T> struct Moments { T mean, square; };
template <class K, class T> MT_HD Moments<T> update_moments(const K& k, T g, T& mean, T& square) {
  const T m = k.beta1 * mean + k.rest1 * g, q = k.beta2 * square + k.rest2 * g * g;
  mean = m, square = q;
  return {m, q};
}

// The rows of Info are tables.
// clang-format off

// ---- the optimizers -----------------------------------------------------------------------------

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  Flag nesterov = false, maximize = false, master_weights = false;
};
struct SGD {
  using Options = SGDOptions;
  static constexpr Info info{"SGD", "Stochastic gradient descent, as torch.optim.SGD.",
    {{"lr"}, {"momentum"}, {"dampening", -math::kInfinity}, {"weight_decay"}, flag("nesterov"),
     flag("maximize"), kMaster},
    {{"momentum_buffer", "momentum"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.9995, 1.00075, 0.99625}},
    {{.lr = .1, .momentum = .8, .nesterov = true}, {0.91, 1.103, -0.1256015744}},
    {{.lr = .1, .momentum = .9, .dampening = .2, .weight_decay = .1, .maximize = true},
     {1.04, 0.96768, 1.65749261201461}}};

  static const char* refuses(const Options& o) {
    return o.nesterov && (o.momentum == 0 || o.dampening != 0) ? "nesterov needs a momentum and no dampening" : nullptr;
  }
  static const char* refuses_rows(const Options& o) {
    return o.momentum != 0 || o.weight_decay != 0 ? "momentum and weight_decay must be 0" : nullptr;
  }
  template <class T> struct Terms { T lr, kept, fresh, now, ahead; };
  static Terms<double> prepare(const Options& o, const Progress& p) {
    return {o.lr, p.first ? 0 : o.momentum, p.first ? 1 : 1 - o.dampening, o.nesterov.on, o.nesterov ? o.momentum : 1};
  }
  template <unsigned States, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& buffer) {
    if constexpr (has(States, 0)) {
      const T v = k.kept * buffer + k.fresh * g;
      buffer = v;
      w -= k.lr * (k.now * g + k.ahead * v);
    } else {
      w -= k.lr * g;
    }
  }
};

struct AdamOptions {
  double lr = 1e-3, beta1 = .9, beta2 = .999, eps = 1e-8, weight_decay = 0;
  Flag amsgrad = false, maximize = false, decoupled_weight_decay = false, master_weights = false;
};
struct Adam {
  using Options = AdamOptions;
  static constexpr Info info{"Adam", "Adaptive moments, as torch.optim.Adam (Kingma 2015).",
    {{"lr"}, kBeta, kBeta, {"eps"}, {"weight_decay"}, flag("amsgrad"), flag("maximize"),
     flag("decoupled_weight_decay"), kMaster},
    {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", "amsgrad"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.99900000002, 0.999442215279139, 0.997486440052534}},
    {{.lr = .1, .beta1 = .7, .beta2 = .8, .eps = .01, .weight_decay = .1, .amsgrad = true, .maximize = true},
     {1.09756097560976, 1.03752767455349, 1.18908304244659}},
    {{.lr = .1, .beta1 = .7, .beta2 = .8, .eps = .01, .weight_decay = .1, .decoupled_weight_decay = true},
     {0.891960784313725, 0.936007326096553, 0.670177480251193}}};

  template <class T> struct Terms { T beta1, beta2, rest1, rest2, rate, scale, eps; };
  template <class O> static Terms<double> prepare(const O& o, const Progress& p) {
    return {o.beta1, o.beta2, 1 - o.beta1, 1 - o.beta2, o.lr / (1 - pow(o.beta1, p.step)),
            1 / sqrt(1 - pow(o.beta2, p.step)), o.eps};
  }
  template <unsigned States, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& mean, T& square,
                                                             T& largest) {
    const auto [m, q] = update_moments(k, g, mean, square);
    T most = q;
    if constexpr (has(States, 2)) largest = most = q < largest ? largest : q;
    w = w - k.rate * m / (math::sqrt(most) * k.scale + k.eps);
  }
};

struct AdamWOptions {
  double lr = 1e-3, beta1 = .9, beta2 = .999, eps = 1e-8, weight_decay = .01;
  Flag amsgrad = false, maximize = false, master_weights = false;
};
struct AdamW : Adam {
  using Options = AdamWOptions;
  static constexpr bool decoupled = true;
  static constexpr Info info{"AdamW",
    "Adam with a decay of the parameters themselves, as torch.optim.AdamW (Loshchilov 2019).",
    {{"lr"}, kBeta, kBeta, {"eps"}, {"weight_decay"}, flag("amsgrad"), flag("maximize"), kMaster},
    {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", "amsgrad"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.99899000002, 0.999422225379139, 0.997396553282931}},
    {{.lr = .1, .beta1 = .7, .beta2 = .8, .eps = .01, .weight_decay = .1, .amsgrad = true, .maximize = true},
     {1.08803921568627, 1.02419267390345, 1.14967521598803}}};
};

struct RMSpropOptions {
  double lr = .01, alpha = .99, eps = 1e-8, weight_decay = 0, momentum = 0;
  Flag centered = false, maximize = false, master_weights = false;
};
struct RMSprop {
  using Options = RMSpropOptions;
  static constexpr Info info{"RMSprop",
    "Steps divided by the root of a running mean of squared gradients, as torch.optim.RMSprop; centered: minus "
    "the square of their mean.",
    {{"lr"}, {"alpha"}, {"eps"}, {"weight_decay"}, {"momentum"}, flag("centered"), flag("maximize"), kMaster},
    {{"square_avg"}, {"momentum_buffer", "momentum"}, {"grad_avg", "centered"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.900000019999996, 0.992911781374815, 0.847109320918103}},
    {{.lr = .1, .momentum = .5}, {1.99999960537323e-07, 0.42911791374813, -1.64592326902621}},
    {{.lr = .1, .alpha = .8, .eps = .01, .weight_decay = .1, .momentum = .9, .centered = true, .maximize = true},
     {1.23529411764706, 1.2214333037874, 2.27505243539461}}};

  template <class T> struct Terms { T lr, alpha, rest, eps, momentum; };
  static Terms<double> prepare(const Options& o, const Progress&) {
    return {o.lr, o.alpha, 1 - o.alpha, o.eps, o.momentum};
  }
  template <unsigned States, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& square, T& buffer,
                                                             T& mean) {
    T q = k.alpha * square + k.rest * g * g;
    square = q;
    if constexpr (has(States, 2)) {
      mean = mean + k.rest * (g - mean);
      q = q - mean * mean;
    }
    const T root = math::sqrt(q) + k.eps;
    if constexpr (has(States, 1)) buffer = k.momentum * buffer + g / root, w = w - k.lr * buffer;
    else w = w - k.lr * g / root;
  }
};

struct AdagradOptions {
  double lr = .01, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  Flag maximize = false, master_weights = false;
};
struct Adagrad {
  using Options = AdagradOptions;
  static constexpr Info info{"Adagrad",
    "Steps divided by the root of the sum of squared gradients, as torch.optim.Adagrad (Duchi 2011).",
    {{"lr"}, {"lr_decay"}, {"weight_decay"}, {"initial_accumulator_value"}, {"eps"}, flag("maximize"), kMaster},
    {{"sum", nullptr, "initial_accumulator_value"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.990000000002, 0.999284766910163, 0.984788908200241}},
    {{.lr = .1, .lr_decay = .5, .weight_decay = .1, .initial_accumulator_value = .3, .eps = .01, .maximize = true},
     {1.058119851995, 0.998887840834446, 1.04801979026669}}};

  static const char* refuses_rows(const Options& o) {
    return o.weight_decay != 0 ? "weight_decay must be 0" : nullptr;
  }
  template <class T> struct Terms { T rate, eps; };
  static Terms<double> prepare(const Options& o, const Progress& p) {
    return {o.lr / (1 + (p.step - 1) * o.lr_decay), o.eps};
  }
  template <unsigned, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& sum) {
    sum = sum + g * g;
    w = w - k.rate * g / (math::sqrt(sum) + k.eps);
  }
};

struct AdadeltaOptions {
  double lr = 1, rho = .9, eps = 1e-6, weight_decay = 0;
  Flag maximize = false, master_weights = false;
};
struct Adadelta {
  using Options = AdadeltaOptions;
  static constexpr Info info{"Adadelta",
    "Steps scaled by the RMS of earlier steps over that of gradients, as torch.optim.Adadelta (Zeiler 2012).",
    {{"lr"}, {"rho", 0, 1}, {"eps"}, {"weight_decay"}, flag("maximize"), kMaster},
    {{"square_avg"}, {"acc_delta"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.996837785583488, 1.00101894212736, 0.989529375903589}},
    {{.lr = .5, .rho = .7, .eps = .01, .weight_decay = .1, .maximize = true},
     {1.08304547985374, 0.964227130549531, 1.24160610283189}}};

  template <class T> struct Terms { T lr, rho, rest, eps; };
  static Terms<double> prepare(const Options& o, const Progress&) { return {o.lr, o.rho, 1 - o.rho, o.eps}; }
  template <unsigned, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& square, T& delta) {
    square = k.rho * square + k.rest * g * g;
    const T d = math::sqrt(delta + k.eps) / math::sqrt(square + k.eps) * g;
    delta = k.rho * delta + k.rest * d * d;
    w = w - k.lr * d;
  }
};

struct AdamaxOptions {
  double lr = 2e-3, beta1 = .9, beta2 = .999, eps = 1e-8, weight_decay = 0;
  Flag maximize = false, master_weights = false;
};
struct Adamax {
  using Options = AdamaxOptions;
  static constexpr Info info{"Adamax", "Adam with the largest gradient so far, as torch.optim.Adamax (Kingma 2015).",
    {{"lr"}, kBeta, kBeta, {"eps"}, {"weight_decay"}, flag("maximize"), kMaster},
    {{"exp_avg"}, {"exp_inf"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.99800000004, 0.998673684245137, 0.996065171298674}},
    {{.lr = .1, .beta1 = .7, .beta2 = .8, .eps = .01, .weight_decay = .1, .maximize = true},
     {1.09756097560976, 1.0511913593872, 1.1728411580059}}};

  template <class T> struct Terms { T beta1, rest1, beta2, rate, eps; };
  static Terms<double> prepare(const Options& o, const Progress& p) {
    return {o.beta1, 1 - o.beta1, o.beta2, o.lr / (1 - pow(o.beta1, p.step)), o.eps};
  }
  template <unsigned, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& mean, T& most) {
    const T before = k.beta2 * most, now = math::fabs(g) + k.eps;
    mean = k.beta1 * mean + k.rest1 * g;
    most = now < before ? before : now;
    w = w - k.rate * mean / most;
  }
};

struct NAdamOptions {
  double lr = 2e-3, beta1 = .9, beta2 = .999, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  Flag decoupled_weight_decay = false, maximize = false, master_weights = false;
};
struct NAdam {
  using Options = NAdamOptions;
  static constexpr Info info{"NAdam", "Adam with Nesterov's momentum, as torch.optim.NAdam (Dozat 2016).",
    {{"lr"}, kBeta, kBeta, {"eps"}, {"weight_decay"}, {"momentum_decay"}, flag("decoupled_weight_decay"),
     flag("maximize"), kMaster},
    {{"exp_avg"}, {"exp_avg_sq"}}, {"mu_product"}};
  static constexpr Point<Options> points[] = {
    {{}, {0.997887096485547, 0.999780882538966, 0.995377922214333}},
    {{.lr = .1, .beta1 = .7, .beta2 = .8, .eps = .01, .weight_decay = .1, .momentum_decay = .2,
      .decoupled_weight_decay = true, .maximize = true},
     {1.1000012491399, 0.98671887940553, 1.15988913645375}}};

  template <class T> struct Terms { T beta1, beta2, rest1, rest2, by_grad, by_mean, scale, eps; };
  static Terms<double> prepare(const Options& o, Progress& p) {
    const double mu = o.beta1 * (1 - .5 * pow(.96, p.step * o.momentum_decay)),
                 next = o.beta1 * (1 - .5 * pow(.96, (p.step + 1) * o.momentum_decay));
    double& product = p.running[0];
    product *= mu;
    return {o.beta1, o.beta2, 1 - o.beta1, 1 - o.beta2, o.lr * (1 - mu) / (1 - product),
            o.lr * next / (1 - product * next), 1 / sqrt(1 - pow(o.beta2, p.step)), o.eps};
  }
  template <unsigned, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& mean, T& square) {
    const auto [m, q] = update_moments(k, g, mean, square);
    w = w - (k.by_grad * g + k.by_mean * m) / (math::sqrt(q) * k.scale + k.eps);
  }
};

struct RAdamOptions {
  double lr = 1e-3, beta1 = .9, beta2 = .999, eps = 1e-8, weight_decay = 0;
  Flag decoupled_weight_decay = false, maximize = false, master_weights = false;
};
struct RAdam {
  using Options = RAdamOptions;
  static constexpr Info info{"RAdam",
    "Adam whose first steps, based on few gradients, are not scaled, as torch.optim.RAdam (Liu 2019).",
    {{"lr"}, kBeta, kBeta, {"eps"}, {"weight_decay"}, flag("decoupled_weight_decay"), flag("maximize"), kMaster},
    {{"exp_avg"}, {"exp_avg_sq"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.9995, 0.999921052631579, 0.998869596783925}},
    {{.lr = .1, .beta1 = .7, .beta2 = .99, .eps = .01, .weight_decay = .1},
     {0.94, 0.983294117647059, 0.82643906923703}},
    {{.lr = .1, .beta1 = .7, .beta2 = .95, .eps = .01, .weight_decay = .1, .decoupled_weight_decay = true,
      .maximize = true}, {1.04, 0.976658823529412, 1.04759501015331}}};

  template <class T> struct Terms { T beta1, beta2, rest1, rest2, rate, eps, scaled; };
  static Terms<double> prepare(const Options& o, const Progress& p) {
    const double power = pow(o.beta2, p.step), rest = 1 - power, most = 2 / (1 - o.beta2) - 1,
                 length = most - 2 * p.step * power / rest;  // the number of gradients in the mean
    const bool scaled = length > 5;
    const double rectified =
      scaled ? sqrt(rest * (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) : 1;
    return {o.beta1, o.beta2, 1 - o.beta1, 1 - o.beta2, rectified * o.lr / (1 - pow(o.beta1, p.step)), o.eps,
            double(scaled)};
  }
  template <unsigned, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& mean, T& square) {
    const auto [m, q] = update_moments(k, g, mean, square);
    const T root = math::sqrt(q) + k.eps;
    w = w - k.rate * m / (k.scaled != T(0) ? root : T(1));
  }
};

struct LionOptions {
  double lr = 1e-4, beta1 = .9, beta2 = .99, weight_decay = 0;
  Flag maximize = false, master_weights = false;
};
struct Lion {
  using Options = LionOptions;
  static constexpr bool decoupled = true;
  static constexpr Info info{"Lion", "Steps of equal size by the sign of a running mean of gradients (Chen 2023).",
    {{"lr"}, kBeta, kBeta, {"weight_decay"}, flag("maximize"), kMaster},
    {{"exp_avg"}}};
  static constexpr Point<Options> points[] = {  // from the paper's formula; PyTorch has no Lion
    {{}, {0.9999, 1, 0.9997}},
    {{.lr = .1, .beta1 = .7, .beta2 = .8, .weight_decay = .1, .maximize = true},
     {1.09, 0.9791, 1.20181250106583}}};

  template <class T> struct Terms { T lr, beta1, rest1, beta2, rest2; };
  static Terms<double> prepare(const Options& o, const Progress&) {
    return {o.lr, o.beta1, 1 - o.beta1, o.beta2, 1 - o.beta2};
  }
  template <unsigned, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& mean) {
    const T c = k.beta1 * mean + k.rest1 * g;
    w = w - (c > T(0) ? k.lr : c < T(0) ? -k.lr : T(0) * c);
    mean = k.beta2 * mean + k.rest2 * g;
  }
};

struct SparseAdamOptions {
  double lr = 1e-3, beta1 = .9, beta2 = .999, eps = 1e-8;
  Flag maximize = false, master_weights = false;
};
struct SparseAdam {
  using Options = SparseAdamOptions;
  static constexpr Info info{"SparseAdam",
    "Adam for sparse gradients, as torch.optim.SparseAdam: rows without gradients keep their values and moments.",
    {{"lr"}, kBeta, kBeta, {"eps"}, flag("maximize"), kMaster},
    {{"exp_avg"}, {"exp_avg_sq"}}};
  static constexpr Point<Options> points[] = {
    {{}, {0.999000000632455, 0.99944221579236, 0.997486440753593}},
    {{.lr = .1, .beta1 = .7, .beta2 = .8, .eps = .01, .maximize = true},
     {1.0957193026503, 1.04310408659401, 1.25157267226989}}};

  static const char* refuses_rows(const Options&) { return nullptr; }
  template <class T> struct Terms { T beta1, beta2, rest1, rest2, rate, eps; };
  static Terms<double> prepare(const Options& o, const Progress& p) {
    return {o.beta1, o.beta2, 1 - o.beta1, 1 - o.beta2,
            o.lr * sqrt(1 - pow(o.beta2, p.step)) / (1 - pow(o.beta1, p.step)), o.eps};
  }
  template <unsigned, class T> MT_HD static void step(const Terms<T>& k, T& w, T g, T& mean, T& square) {
    const auto [m, q] = update_moments(k, g, mean, square);
    w = w - k.rate * m / (math::sqrt(q) + k.eps);
  }
};

// ---- the list: the only registration ------------------------------------------------------------

#define MT_OPTIMIZERS(X) \
  X(SGD) X(Adam) X(AdamW) X(RMSprop) X(Adagrad) X(Adadelta) X(Adamax) X(NAdam) X(RAdam) X(Lion) \
  X(SparseAdam)

// clang-format on

#define MT_NUMBER(O) k##O,
/// The number of an optimizer for devices and bindings.
enum Rule : int { MT_OPTIMIZERS(MT_NUMBER) kOptimizers };
#undef MT_NUMBER

// ---- the properties of an optimizer --------------------------------------------------------------

template <class Row, int N> constexpr int count_names(const Row (&rows)[N]) {
  int n = 0;
  while (n < N && rows[n].name) ++n;
  return n;
}
template <class O> constexpr int states = count_names(O::info.states);
/// Whether a parameter may have exactly these states.
template <class O> constexpr bool possible(unsigned mask) {
  for (int k = 0; k < states<O>; ++k)
    if (!O::info.states[k].when && !has(mask, k)) return false;
  return mask >> states<O> == 0;
}

/// Whether its weight decay may be applied to the parameter itself.
template <class O> constexpr bool may_decouple = requires { O::decoupled; }
|| requires(typename O::Options o) { o.decoupled_weight_decay; };

/// The numbers of a step in T: those that all optimizers have, and the optimizer's own.
template <class O, class T> struct Numbers {
  T sign, decay, shrink;  // sign: of the gradient
  typename O::template Terms<T> own;
};
/// Reads them from a row of Optimize::numbers.
template <class O, class T> MT_HD Numbers<O, T> numbers_in(const double* row) {
  Numbers<O, T> k;
  static_assert(sizeof k <= kMaxNumbers * sizeof(T));
  for (unsigned i = 0; i < sizeof k / sizeof(T); ++i) {
    const T number = T(row[i]);
    __builtin_memcpy(reinterpret_cast<char*>(&k) + i * sizeof(T), &number, sizeof(T));
  }
  return k;
}

/// State k of an element; `none` stands for a state that does not exist.
template <unsigned States, int K, class T> MT_HD T& state_at(T* const* state, int64_t i, T& none) {
  if constexpr (has(States, K)) return state[K][i];
  else return none;
}
/// Updates the i-th element by one step with its gradient.
template <class O, unsigned States, class T>
MT_HD void update(const Numbers<O, T>& k, T* w, T grad, T* const* state, int64_t i) {
  T none = 0, v = w[i];
  if constexpr (may_decouple<O>) v = v * k.shrink;
  const T g = grad + k.decay * v;
  T &a = state_at<States, 0>(state, i, none), &b = state_at<States, 1>(state, i, none),
    &c = state_at<States, 2>(state, i, none);
  if constexpr (states<O> == 1) O::template step<States>(k.own, v, g, a);
  else if constexpr (states<O> == 2) O::template step<States>(k.own, v, g, a, b);
  else O::template step<States>(k.own, v, g, a, b, c);
  w[i] = v;
}

/// Functions of one kind for each rule, state mask and dtype: `Kind<O, States, T>::run`, or null
/// where the states are not possible.
template <template <class, unsigned, class> class Kind, class Function> struct Table {
  static constexpr int kMasks = 1 << kMaxStates;
  template <class O, unsigned States, class T> static constexpr Function entry() {
    if constexpr (possible<O>(States)) return Kind<O, States, T>::run;
    else return nullptr;
  }
  struct Rule {
    Function run[kMasks][2];
  };
  template <class O, unsigned... States>
  static constexpr Rule rule(std::integer_sequence<unsigned, States...>) {
    return {{{entry<O, States, float>(), entry<O, States, double>()}...}};
  }
#define MT_RULE(O) rule<O>(std::make_integer_sequence<unsigned, kMasks>{}),
  static Function find(const Optimize& o) {
    static constexpr Rule rules[] = {MT_OPTIMIZERS(MT_RULE)};
    return rules[o.rule].run[o.states][o.dtype == Dtype::f64];
  }
#undef MT_RULE
};

}  // namespace MT_ISA
}  // namespace mt::optim
