// optim.cpp -- optimizers: their table, and one call that steps all parameters
#include "engine/ops/optim.h"

#include <algorithm>
#include <cmath>

#include "engine/autograd/graph.h"
#include "engine/core/async_errors.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

// ---- the table of optimizers ----------------------------------------------------------------------

template <class O> void prepare(const double* options, optim::Progress& p, double* numbers) {
  const auto o = options_in<typename O::Options>(options);
  bool decoupled = requires { O::decoupled; };
  if constexpr (requires { o.decoupled_weight_decay; }) decoupled = o.decoupled_weight_decay;
  double decay = 0;
  if constexpr (requires { o.weight_decay; }) decay = o.weight_decay;
  const optim::Numbers<O, double> k{o.maximize ? -1.0 : 1.0, decoupled ? 0 : decay,
                                    decoupled ? 1 - o.lr * decay : 1, O::prepare(o, p)};
  std::memcpy(numbers, &k, sizeof k);
}

template <class O> const char* refuses(const double* options) {
  const auto o = options_in<typename O::Options>(options);
  if constexpr (requires { O::refuses(o); }) return O::refuses(o);
  else return nullptr;
}

template <class O> const char* refuses_rows(const double* options) {
  if constexpr (requires { &O::refuses_rows; })
    return O::refuses_rows(options_in<typename O::Options>(options));
  else return "its steps change all rows";
}

int option_named(const optim::Info& info, const char* name) {
  for (int i = 0; name && i < optim::kMaxOptions && info.options[i].name; ++i)
    if (std::strcmp(info.options[i].name, name) == 0) return i;
  return -1;
}

template <class O> OptimizerRow row_of() {
  const typename O::Options defaults{};
  constexpr int options = optim::count_names(O::info.options);
  static_assert(sizeof defaults == options * sizeof(double), "each option has its name and range");
  OptimizerRow r{&O::info,   options,    optim::states<O>, 0, 0, {}, {}, {}, {},
                 prepare<O>, refuses<O>, refuses_rows<O>};
  r.master_weights = offsetof(typename O::Options, master_weights) / sizeof(double);
  while (r.running < optim::kMaxRunning && O::info.running[r.running]) ++r.running;
  std::memcpy(r.defaults, &defaults, sizeof defaults);
  for (int i = 0; i + 1 < options; ++i)
    r.pair[i] = std::strcmp(O::info.options[i].name, O::info.options[i + 1].name) == 0;
  for (int k = 0; k < kMaxStates; ++k) {
    r.when[k] = option_named(O::info, O::info.states[k].when);
    r.start[k] = option_named(O::info, O::info.states[k].start);
  }
  return r;
}

/// The states that the options require.
unsigned states_for(const OptimizerRow& row, const double* options) {
  unsigned mask = 0;
  for (int k = 0; k < row.states; ++k)
    if (row.when[k] < 0 || options[row.when[k]] != 0) mask |= 1u << k;
  return mask;
}

bool in_range(const optim::Option& o, double x) {
  return x >= o.least && x <= o.most && !(o.below && x == o.most) && std::isfinite(x);
}

}  // namespace

const OptimizerRow& optimizer_row(int rule) {
#define MT_ROW(O) row_of<optim::O>(),
  static const OptimizerRow rows[] = {MT_OPTIMIZERS(MT_ROW)};
#undef MT_ROW
  return rows[rule];
}

std::string option_range(const OptimizerRow& row, int i) {
  const optim::Option& o = row.info->options[i];
  const bool pair = row.pair[i] || (i > 0 && row.pair[i - 1]);
  const std::string from = std::isfinite(o.least) ? fmt::format(" from {}", o.least) : "";
  const std::string end =
      o.most < math::kInfinity ? fmt::format(" {} {}", o.below ? "to below" : "to", o.most) : "";
  return (pair ? "two numbers" : "a finite number") + from + end;
}

std::string wrong_option(const OptimizerRow& row, const double* options) {
  for (int i = 0; i < row.options; ++i) {
    const optim::Option& o = row.info->options[i];
    if (in_range(o, options[i])) continue;
    return fmt::format("{} must be {}, got {}", o.name, option_range(row, i), show(options[i]));
  }
  const char* const sentence = row.refuses(options);
  return sentence ? sentence : "";
}

// ---- a step ---------------------------------------------------------------------------------------

namespace {

/// The rows of a sparse gradient, with those of the states.
struct RowUpdate {
  const RowGradient& gradient;
  Tensor state[kMaxStates] = {};
};

/// A parameter with a gradient, as the verb receives it.
struct Entry {
  size_t group, index;
  unsigned states;
  const Tensor* parameter;
  Tensor grad;
  Tensor copy = {};  // of a non-contiguous parameter, the master of a 16-bit one, or rows
  std::unique_ptr<RowUpdate> rows = nullptr;  // if grad and copy are rows
  const Tensor& value() const { return copy.defined() ? copy : *parameter; }
  bool same_kind(const Entry& e) const {
    return states == e.states && value().dtype() == e.value().dtype() &&
           &value().device() == &e.value().device();
  }
};

bool same(const optim::Progress& a, const optim::Progress& b) {
  return a.step == b.step && a.first == b.first &&
         std::equal(a.running, a.running + optim::kMaxRunning, b.running);
}

bool same_shape(const Tensor& a, const Tensor& b) {
  const TensorImpl &x = *a.impl(), &y = *b.impl();
  return x.ndim == y.ndim && std::equal(x.size, x.size + x.ndim, y.size);
}

bool is_recorded(const Device& d) { return capturing && &d == capturing; }

}  // namespace

struct Optimizer::Impl : std::enable_shared_from_this<Impl> {
  const int rule;
  const OptimizerRow& row;
  std::vector<Group> groups;
  std::vector<Entry> entries;  // of the current step, like the members below
  std::vector<OptimizeTensor> tensors;
  std::vector<double> numbers;

  explicit Impl(int r) : rule(r), row(optimizer_row(r)) {}
  const char* name() const { return row.info->name; }
  bool fit(Tensor& state, const Tensor& shaped, const Tensor& like, size_t i) const;
  void fit_state(const Group&, Parameter&, int k, const Tensor& like, size_t i) const;
  bool has_master(const Group&, const Tensor& parameter) const;
  const Tensor& fit_master(Parameter&, size_t i) const;
  void add_entry(size_t group, size_t index, unsigned states, const std::vector<RowGradient>&);
  void take_rows(Entry&, const Group&, Parameter&, const RowGradient&);
  void write_rows(const Entry&) const;
  void advance(const Group&, Parameter&);
  void fill_numbers(const Entry* from, const Entry* to);
  double* record(const Entry* from, const Entry* to);
  void run(const Entry* from, const Entry* to);
};

/// Moves a state to the device of parameter i's value; false if the state does not exist yet.
bool Optimizer::Impl::fit(Tensor& state, const Tensor& shaped, const Tensor& like, size_t i) const {
  if (!state.defined()) {
    if (is_recorded(like.device()))
      fail(
          "{}: parameter {} has no state yet, which every replay would make again; let mt.cuda.graph "
          "run the function before it records, warmup=1 or more",
          name(), i + 1);
    return false;
  }
  if (!same_shape(state, shaped))
    fail("{}: parameter {} is {}, its state {}; make a new optimizer", name(), i + 1,
         shaped.shape(), state.shape());
  if (state.dtype() != like.dtype() || &state.device() != &like.device() || !state.is_contiguous())
    state = contiguous(to(to(state, like.device()), like.dtype()));
  return true;
}

/// Creates state k, or moves it to the parameter's device.
void Optimizer::Impl::fit_state(const Group& group, Parameter& p, int k, const Tensor& like,
                                size_t i) const {
  if (fit(p.state[k], p.value, like, i)) return;
  const int start = row.start[k];
  p.state[k] = full(p.value.shape(), start < 0 ? 0 : group.options[start], like);
  p.progress.first = true;
}

bool Optimizer::Impl::has_master(const Group& group, const Tensor& parameter) const {
  return is_storage_only(parameter.dtype()) && group.options[row.master_weights] != 0;
}

/// The master of a 16-bit parameter: that of the last step if the parameter is still its rounded
/// value, otherwise a conversion of the parameter, which other code has changed.
const Tensor& Optimizer::Impl::fit_master(Parameter& p, size_t i) const {
  const Tensor value = contiguous(to_compute_dtype(p.value));
  if (!fit(p.master, value, value, i)) return p.master = value;
  const Tensor kept = eq(to(p.master, p.value.dtype()), p.value);
  const Into in_place(&p.master);
  return p.master = where(kept, p.master, value);
}

/// The rows of a parameter that has a sparse gradient.
void Optimizer::Impl::take_rows(Entry& e, const Group& group, Parameter& p,
                                const RowGradient& sparse) {
  const char* why = row.refuses_rows(group.options.data());
  if (!why && has_master(group, p.value)) why = "master_weights must be false";
  if (!why && is_recorded(p.value.device())) why = "mt.cuda.graph does not record it";
  if (why)
    fail(
        "{}: parameter {} has a sparse gradient, of nn.Embedding with sparse=true: {}; "
        "SGD, Adagrad and SparseAdam take those",
        name(), e.index + 1, why);
  check_writable(name(), p.value);
  e.rows = std::make_unique<RowUpdate>(RowUpdate{sparse});
  e.copy = contiguous(to_compute_dtype(index_select(p.value, 0, sparse.rows)));
}

void Optimizer::Impl::add_entry(size_t group, size_t i, unsigned states,
                                const std::vector<RowGradient>& sparse) {
  Parameter& parameter = groups[group].parameters[i];
  const Tensor& p = parameter.value;
  check_alive(p.device());
  Tensor g = p.grad();
  const auto rows = std::find_if(sparse.begin(), sparse.end(), [&](const RowGradient& s) {
    return s.parameter.impl() == p.impl();
  });
  const bool has_rows = rows != sparse.end(), by_rows = has_rows && !g.defined();
  if (by_rows) g = rows->values;
  else if (has_rows) g = index_add(g, 0, rows->rows, to(rows->values, g.dtype()));
  if (!g.defined()) return;
  if (!by_rows && !same_shape(g, p))
    fail("{}: parameter {} is {}, its gradient {}", name(), i + 1, p.shape(), g.shape());
  if (!is_float(p.dtype())) fail("{}: parameter {} is {}", name(), i + 1, p.dtype());
  if (&g.device() != &p.device())
    fail("{}: parameter {} is on {}, its gradient on {}", name(), i + 1, p.device().name,
         g.device().name);
  const Dtype dtype = compute_dtype(p.dtype());
  Entry& e = entries.emplace_back(Entry{group, i, states, &p, std::move(g)});
  if (by_rows) {
    take_rows(e, groups[group], parameter, *rows);
  } else if (p.dtype() != dtype || !p.is_contiguous()) {
    check_writable(name(), p);
    e.copy =
        has_master(groups[group], p) ? fit_master(parameter, i) : contiguous(to_compute_dtype(p));
  }
  if (e.grad.dtype() != dtype || !e.grad.is_contiguous()) e.grad = contiguous(to(e.grad, dtype));
  for (int k = 0; k < row.states; ++k)
    if (optim::has(states, k)) {
      fit_state(groups[group], parameter, k, e.value(), i);
      if (by_rows) e.rows->state[k] = index_select(parameter.state[k], 0, rows->rows);
    }
}

/// Counts a step of a parameter; appends a row with its numbers.
void Optimizer::Impl::advance(const Group& group, Parameter& p) {
  ++p.progress.step;
  numbers.resize(numbers.size() + kMaxNumbers);
  row.prepare(group.options.data(), p.progress, &numbers[numbers.size() - kMaxNumbers]);
  p.progress.first = false;
}

/// Fills the rows of a step; parameters with the same progress share a row.
void Optimizer::Impl::fill_numbers(const Entry* from, const Entry* to) {
  optim::Progress before;
  const Parameter* last = nullptr;
  for (const Entry* e = from; e < to; ++e) {
    Group& group = groups[e->group];
    Parameter& p = group.parameters[e->index];
    if (last && e->group == e[-1].group && same(p.progress, before)) {
      p.progress = last->progress;
    } else {
      before = p.progress;
      advance(group, p);
    }
    last = &p;
    tensors[e - from].row = int(numbers.size()) / kMaxNumbers - 1;
  }
}

/// While a graph is recorded: the rows, one per parameter, that its replays fill.
double* Optimizer::Impl::record(const Entry* from, const Entry* to) {
  struct GraphRow {
    size_t group, index;
    Tensor value;
    void* state[kMaxStates];
    const void* master;  // null: no master
  };
  std::vector<GraphRow> places;
  for (const Entry* e = from; e < to; ++e) {
    tensors[e - from].row = int(e - from);
    const bool master = has_master(groups[e->group], *e->parameter);
    GraphRow& p = places.emplace_back(
        GraphRow{e->group, e->index, *e->parameter, {}, master ? e->copy.data() : nullptr});
    std::copy_n(tensors[e - from].state, kMaxStates, p.state);
  }
  const Gpu& gpu = *capturing;
  double* const rows = gpu.graph_numbers((to - from) * kMaxNumbers);
  const auto prepare = [self = shared_from_this(), places, rows, &gpu,
                        states = from->states](bool commit) {
    self->numbers.clear();
    for (const GraphRow& at : places) {
      if (at.group >= self->groups.size() || at.index >= self->groups[at.group].parameters.size() ||
          self->groups[at.group].parameters[at.index].value.impl() != at.value.impl())
        fail("replay: {} has other parameters now than were recorded; record the graph again",
             self->name());
      Group& group = self->groups[at.group];
      Parameter& p = group.parameters[at.index];
      const bool master = self->has_master(group, p.value) && p.master.defined();
      bool fits = states_for(self->row, group.options.data()) == states &&
                  (master ? p.master.data() : nullptr) == at.master;
      for (int k = 0; k < kMaxStates; ++k)
        fits &= !at.state[k] || (p.state[k].defined() && p.state[k].data() == at.state[k]);
      if (!fits)
        fail("replay: {} has other state now than was recorded; record the graph again",
             self->name());
      if (commit) self->advance(group, p);
    }
    if (commit) gpu.write_numbers(rows, self->numbers.data(), int64_t(self->numbers.size()));
  };
  current_capture->before_replay.push_back(prepare);
  return rows;
}

/// Writes the rows of a parameter and of its states.
void Optimizer::Impl::write_rows(const Entry& e) const {
  const auto write = [&](const Tensor& all, const Tensor& rows) {
    index_copy(all, 0, e.rows->gradient.rows, to(rows, all.dtype()), InPlace(true));
  };
  write(*e.parameter, e.copy);
  for (int k = 0; k < row.states; ++k)
    if (optim::has(e.states, k))
      write(groups[e.group].parameters[e.index].state[k], e.rows->state[k]);
}

/// Runs the step for parameters of one kind.
void Optimizer::Impl::run(const Entry* from, const Entry* to) {
  const Device& device = from->value().device();
  tensors.clear(), numbers.clear();
  int64_t n = 0;
  for (const Entry* e = from; e < to; ++e) {
    const Parameter& p = groups[e->group].parameters[e->index];
    OptimizeTensor t{e->value().numel(), n, e->value().data(), e->grad.data(), {}, 0};
    for (int k = 0; k < row.states; ++k)
      if (optim::has(e->states, k)) t.state[k] = (e->rows ? e->rows->state : p.state)[k].data();
    tensors.push_back(t);
    n += t.n;
  }
  const bool recorded = is_recorded(device);
  if (!recorded) fill_numbers(from, to);
  const double* const rows = recorded ? record(from, to) : numbers.data();
  device.optimize({rule, from->states, from->value().dtype(), int(to - from), n, tensors.data(),
                   rows, recorded});
  for (const Entry* e = from; e < to; ++e) {
    if (e->rows) write_rows(*e);
    else if (e->copy.defined()) copy_(*e->parameter, e->copy);
    else bump(*e->parameter);
  }
}

Optimizer::Optimizer(int rule) : impl_(std::make_shared<Impl>(rule)) {}
const OptimizerRow& Optimizer::row() const { return impl_->row; }
std::vector<Optimizer::Group>& Optimizer::groups() const { return impl_->groups; }

void Optimizer::add_group(const TensorList& parameters, const double* options) const {
  check(options);
  Group group{};
  std::copy_n(options, row().options, group.options.begin());
  for (const Tensor& p : parameters) p.given(), group.parameters.push_back({p, {}, {}, {}});
  groups().push_back(std::move(group));
}

void Optimizer::check(const double* options) const {
  if (const std::string wrong = wrong_option(row(), options); !wrong.empty())
    fail("{}: {}", row().info->name, wrong);
}

void Optimizer::zero_grad() const {
  for (const Group& group : groups())
    for (const Parameter& p : group.parameters) p.value.set_grad({});
}

void Optimizer::step(const std::vector<RowGradient>& sparse) const {
  const NoGrad off;
  Impl& self = *impl_;
  struct ClearEntries {
    std::vector<Entry>& entries;
    ~ClearEntries() { entries.clear(); }
  } const clear{self.entries};
  for (size_t g = 0; g < self.groups.size(); ++g) {
    const unsigned states = states_for(self.row, self.groups[g].options.data());
    for (size_t i = 0; i < self.groups[g].parameters.size(); ++i)
      self.add_entry(g, i, states, sparse);
  }
  const Entry* const end = self.entries.data() + self.entries.size();
  for (const Entry *from = self.entries.data(), *to = from; from < end; from = to) {
    while (to < end && to->same_kind(*from)) ++to;
    self.run(from, to);
  }
}

// ---- gradient clipping --------------------------------------------------------------------------

/// The gradients that are defined and have elements.
static TensorList gradients_of(const TensorList& parameters) {
  TensorList all;
  for (const Tensor& p : parameters)
    if (Tensor g = p.grad(); g.defined() && g.numel() > 0) all.push_back(std::move(g));
  return all;
}

Tensor grad_norm(const TensorList& parameters, double p) {
  const NoGrad off;
  const TensorList all = gradients_of(parameters);
  if (all.empty()) return zeros({});
  TensorList norms;
  for (const Tensor& g : all)
    norms.push_back(to(norm(to(g, compute_dtype(g.dtype())), p), all[0].device()));
  return norms.size() == 1 ? norms[0] : norm(stack(norms), p);
}

Tensor clip_grad_norm_(const TensorList& parameters, double max_norm, double p, bool finite,
                       const Tensor& given) {
  const NoGrad off;
  const Tensor total = given.defined() ? given : grad_norm(parameters, p);
  if (finite && !std::isfinite(total.item()))
    fail("clip_grad_norm_: the norm of the gradients is {}", show(total.item()));
  Tensor factor = minimum(max_norm / (total + 1e-6), 1.0);
  for (const Tensor& g : gradients_of(parameters)) {
    if (&factor.device() != &g.device()) factor = to(factor, g.device());
    g *= factor;
  }
  return total;
}

void clip_grad_value_(const TensorList& parameters, double clip_value) {
  const NoGrad off;
  const double range[op::kMaxParams] = {-clip_value, clip_value};
  for (const Tensor& g : gradients_of(parameters)) {
    const Tensor* inputs[] = {&g};
    elementwise_(op::id<op::Clamp>, inputs, range);
  }
}

}  // namespace mt
