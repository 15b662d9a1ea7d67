// custom.cpp -- functions whose gradient the user wrote, and stretches that are computed twice
#include "engine/custom.h"

#include "engine/ops.h"

namespace mt {
namespace {

thread_local Node* running = nullptr;  // the function's node whose backward is under way
struct Running {
  explicit Running(Node* node) : before(std::exchange(running, node)) {}
  Running(const Running&) = delete;
  ~Running() { running = before; }
  Node* const before;
};

void check_gradient(const Custom& c, size_t i, const Tensor& g) {
  const Tensor& x = c.inputs[i];
  if (!(g.shape() == x.shape()))
    fail("{}: backward returned a gradient {} for argument {}, which is {}", c.name,
         to_string(g.shape()), i + 1, to_string(x.shape()));
  if (!is_float(g.dtype()))
    fail("{}: backward returned a gradient of {} for argument {}; gradients are floats", c.name,
         dtype_name(g.dtype()), i + 1);
}

void function_backward(Node& node, const Tensor&, Tensor* dx) {
  const std::shared_ptr<Custom> c = node.extra->custom;
  const Running scope(&node);
  std::vector<Tensor> gradients;
  for (Custom::Result& r : c->results) {
    Tensor g = r.walk == walk_now ? std::exchange(r.gradient, {}) : Tensor();
    if (!g.defined() && r.device) g = zeros(r.size, r.dtype, *r.device);
    gradients.push_back(std::move(g));
  }
  const std::vector<Tensor> found = c->backward(gradients);
  for (size_t i = 0; i < c->inputs.size() && i < found.size(); ++i) {
    if (!node.wants(int(i)) || !found[i].defined()) continue;
    check_gradient(*c, i, found[i]);
    dx[i] = to(found[i], c->inputs[i].dtype());
  }
}
const NodeType kFunction{"mt.Function", function_backward};

/// Leaves its gradient with the inner node. What it sends there only says "come".
void result_backward(Node& node, const Tensor& g, Tensor* dx) {
  Node& inner = *node.edge[0].node;
  if (!inner.extra->custom)
    fail(
        "backward: the graph behind 'mt.Function' was used up by an earlier backward; pass "
        "{{retain_graph=true}} to the first");
  Custom::Result& r = inner.extra->custom->results[size_t(node.number[0])];
  r.gradient = g;
  r.walk = walk_now;
  NoGrad off;
  dx[0] = scalar(0, Dtype::f32);
}
const NodeType kResult{"result of mt.Function", result_backward};

}  // namespace

std::vector<Tensor> record_function(std::string name, const std::vector<Tensor>& inputs,
                                    const std::vector<Tensor>& outputs,
                                    const std::vector<bool>& plain, const std::vector<Tensor>& save,
                                    Custom::Backward backward) {
  auto c = std::make_shared<Custom>();
  c->name = std::move(name);
  c->backward = std::move(backward);
  for (const Tensor& x : inputs) c->inputs.push_back(shape_of(x));
  for (const Tensor& t : save) {
    Custom::Saved s{t.detach(), t.impl()->storage->version};
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].impl() == t.impl()) s.input = int(i);
    for (size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k].impl() == t.impl()) s.result = int(k);
    c->saved.push_back(std::move(s));
  }
  Tensor inner = scalar(0, Dtype::f32);
  record(kFunction, inner, inputs).facts().custom = c;
  std::vector<Tensor> results;
  for (size_t k = 0; k < outputs.size(); ++k) {
    bool shared = false;  // with an input: a change of one would go unseen by the other's graph
    for (const Tensor& x : inputs) shared |= x.impl()->storage == outputs[k].impl()->storage;
    Tensor y = outputs[k].detach();
    if (shared) {
      NoGrad off;
      y = clone(y);
    }
    Custom::Result r;
    r.size = y.shape(), r.dtype = y.dtype();
    if (is_float(y.dtype()) && !plain[k]) {
      Node& node = record(kResult, y, {&inner});
      node.number[0] = double(k);
      r.device = &y.device();
      r.node = &node;
      // The inner node must not hold the result's, which holds it; it forgets it in time.
      const std::weak_ptr<Custom> held = c;
      node.facts().custom = std::shared_ptr<Custom>(nullptr, [held, k](Custom*) {
        if (const auto alive = held.lock()) alive->results[k].node = nullptr;
      });
    }
    c->results.push_back(std::move(r));
    results.push_back(std::move(y));
  }
  return results;
}

std::vector<Tensor> saved_tensors() {
  if (!running) fail("saved_tensors: it can be called inside backward only");
  Node& node = *running;
  const std::shared_ptr<Custom> c = node.extra->custom;
  std::vector<Tensor> list;
  for (const Custom::Saved& s : c->saved) {
    const uint32_t now = s.tensor.impl()->storage->version;
    if (now != s.version)
      fail(
          "{}: a saved tensor {} was changed in place since (version {}, expected {}); clone() it "
          "first",
          c->name, to_string(s.tensor.shape()), now, s.version);
    Tensor t = s.tensor;
    if (grad_enabled() && s.input >= 0 && node.wants(s.input)) {
      Edge& edge = node.input(s.input);
      if (edge.leaf) {
        list.push_back(Tensor(edge.leaf));
        continue;
      }
      t = t.detach();
      t.impl()->node = Ref<Node>(edge.node).release();
      t.impl()->requires_grad = true;
    } else if (grad_enabled() && s.result >= 0 && c->results[size_t(s.result)].node) {
      t = t.detach();
      t.impl()->node = Ref<Node>::share(c->results[size_t(s.result)].node).release();
      t.impl()->requires_grad = true;
    }
    list.push_back(t);
  }
  return list;
}

// ---- stretches ----------------------------------------------------------------------------------

namespace {
thread_local std::shared_ptr<Stretch> stretch;
thread_local bool running_again = false;
}  // namespace

InStretch::InStretch(std::shared_ptr<Stretch> s, bool again)
    : before_(std::exchange(stretch, std::move(s))),
      again_before_(std::exchange(running_again, again)) {}
InStretch::~InStretch() {
  stretch = std::move(before_);
  running_again = again_before_;
}
bool in_stretch() { return bool(stretch); }

bool stretch_save(Node& node, int slot, const Tensor& t, int from) {
  if (running_again) {
    stretch->values.push_back({t.detach(), t.impl()->storage->version});
    return true;
  }
  NodeExtra& extra = node.facts();
  extra.stretch = stretch;
  extra.place[slot] = stretch->count++;
  node.source[slot] = int8_t(from);
  return true;
}

void stretch_restore(Node& node, int slot) {
  const int place = node.extra->place[slot];
  if (place < 0 || node.saved[slot]) return;
  const std::shared_ptr<Stretch> s = node.extra->stretch;
  if (s->values.empty()) {
    const NoGrad on(true);
    const InStretch scope(s, true);
    s->again();
  }
  if (int(s->values.size()) != s->count) {
    const size_t now = s->values.size();
    s->values.clear();
    fail(
        "recompute: the second run of the function made {} intermediate values, the first {}; it "
        "must do the same both times",
        now, s->count);
  }
  const Stretch::Value& v = s->values[size_t(place)];
  node.saved[slot] = Ref<TensorImpl>::share(v.tensor.impl());
  node.version[slot] = v.version;
}

}  // namespace mt
