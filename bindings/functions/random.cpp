// random.cpp -- random tensors and their generators

#include "bindings/functions/functions.h"
#include "engine/core/step_listener.h"
#include "engine/ops/generator.h"

namespace mt::lua {
namespace {

// ---- generators as Lua values -------------------------------------------------------------------

struct LuaGenerator : Generator {
  using Generator::Generator;
  static constexpr char kShown[] = "a generator, mt.Generator(seed)";
  static void open(lua_State* L);
};

int new_generator(Args& a) {
  Generator::Kind kind = Generator::Kind::philox;
  int seed = 2;
  if (lua_type(a.L, 1) == LUA_TNUMBER && !a.given(2)) {
    seed = 1;
  } else if (a.given(1)) {
    const std::string name = a.text(1);
    if (name == "mt19937") kind = Generator::Kind::mt19937;
    else if (name != "philox")
      fail("Generator: unknown kind '{}'; use 'philox' or 'mt19937' (PyTorch's)", name);
  }
  const auto n = uint64_t(a.integer(seed));
  return push_result(a, std::make_unique<LuaGenerator>(kind, n));
}

const Entry kGeneratorMethods[] = {
    {"manual_seed(self, n)", "Restarts the generator; returns it.",
     bind<[](LuaGenerator& g, int64_t n) {
       mark_untraceable();
       g.manual_seed(uint64_t(n));
     }> | kReturnsSelf},
    {"seed(self)", "Starts the generator at a seed from the system; returns the seed.",
     bind<[](LuaGenerator& g) { return g.seed(); }>},
    {"initial_seed(self)", "The seed that the generator was started with.",
     bind<[](LuaGenerator& g) { return int64_t(g.initial_seed()); }>},
    {"get_state(self)", "The state of the generator, as a string.",
     bind<[](LuaGenerator& g) { return g.state(); }>},
    {"set_state(self, state)", "Restores the state that get_state returned; returns the generator.",
     bind<[](LuaGenerator& g, const std::string& state) { g.set_state(state); }> | kReturnsSelf},
};

int generator_text(lua_State* L) {
  const auto* held = Userdata<LuaGenerator>::find(L, 1);
  const bool philox = !held || !held->object || held->object->kind() == Generator::Kind::philox;
  lua_pushfstring(L, "Generator('%s')", philox ? "philox" : "mt19937");
  return 1;
}

void LuaGenerator::open(lua_State* L) {
  lua_newtable(L);
  add(L, kGeneratorMethods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, generator_text);
  lua_setfield(L, -2, "__tostring");
}

// ---- drawing ------------------------------------------------------------------------------------

template <Form form, Tensor (*draw)(const Shape&, Dtype, const Device&, Generator*)>
int draw_body(Args& a) {
  const NewTensor spec(a, form);
  return spec.push(a, draw(spec.shape, spec.dtype, spec.device, generator_at(a, 5)));
}

/// A number that does not adopt another operand's dtype.
Tensor float_scalar(double value) { return scalar(value, default_dtype()); }

int normal_body(Args& a) {
  const Tensor *mean = tensor_at(a.L, 1), *deviation = tensor_at(a.L, 2);
  const NewTensorOptions spec(a, 4, default_dtype());
  Generator* g = generator_at(a, 7);
  if (mean || deviation) {
    if (a.given(3)) fail("normal: the shape follows from the tensors; it is for two numbers");
    const Tensor m = mean ? *mean : Tensor(a.number(1)),
                 d = deviation ? *deviation : Tensor(a.number(2));
    const Tensor x = normal(m, d, g);
    return spec.push(a, a.given(4) ? to(x, spec.dtype) : x);
  }
  const double m = a.number(1), d = a.number(2);
  if (!a.given(3)) fail("normal: two numbers need a shape: mt.normal(0, 1, {{2, 3}})");
  Tensor x = empty(a.new_shape(3), spec.dtype, spec.device);
  normal_(x, m, d, g);
  return spec.push(a, x);
}

int bernoulli_body(Args& a) {
  if (const Tensor* p = tensor_at(a.L, 1)) {
    Generator* g = generator_at(a, 4);
    Tensor x = *p;
    if (lua_type(a.L, 2) == LUA_TNUMBER) {  // x:bernoulli(p): only x's shape is used
      x = full(x.shape(), a.number(2), is_float(x.dtype()) ? compute_dtype(x.dtype()) : Dtype::f64,
               x.device());
      x = to(bernoulli(x, g), p->dtype());
    } else if (a.given(2)) {
      fail("bernoulli: the shape follows from the tensor of probabilities");
    } else {
      x = bernoulli(x, g);
    }
    return a.push(a.given(3) ? to(x, a.dtype(3)) : x);
  }
  const double p = a.number(1);
  if (!a.given(2)) fail("bernoulli: a number needs a shape: mt.bernoulli(0.5, {{2, 3}})");
  const Dtype dtype = a.dtype(3, default_dtype());
  const Tensor all = full(a.new_shape(2), p, is_float(dtype) ? compute_dtype(dtype) : Dtype::f64);
  return a.push(to(bernoulli(all, generator_at(a, 4)), dtype));
}

int random_in_place(Args& a) {
  const Tensor& x = a.tensor(1);
  const int64_t most = largest_whole(x.dtype());
  const int64_t low = a.given(2) ? a.integer(2) : 0, high = a.given(3) ? a.integer(3) : most;
  if (a.given(2) && !a.given(3))
    fail("random_: the last number is missing: x:random_(first, last)");
  random_(x, low, high, generator_at(a, 4));
  return a.self();
}

#define MT_DRAWN MT_SHAPED ", generator=nil)"
#define MT_DRAWN_LIKE MT_LIKE ", generator=nil)"

const Entry kRandomFunctions[] = {
    {"rand([shape..], " MT_DRAWN, "Uniform numbers in [0, 1).", draw_body<Form::plain, rand>},
    {"randn([shape..], " MT_DRAWN, "Normal numbers with mean 0 and deviation 1.",
     draw_body<Form::plain, randn>},
    {"randint(first, last, shape, " MT_DRAWN, "Whole numbers from first to last, both included.",
     [](Args& a) {
       const NewTensorOptions spec(a, 4, Dtype::i64);
       return spec.push(a, randint(a.integer(1), a.integer(2), a.new_shape(3), spec.dtype,
                                   spec.device, generator_at(a, 7)));
     }},
    {"randperm(n, generator=nil, device=nil)", "The numbers 1..n in random order.",
     bind<[](int64_t n, Generator* g, const Device& device) {
       return Positions{randperm(n, device, g)};
     }>},
    {"normal(mean=0, std=1, shape=nil, " MT_DRAWN,
     "Normal numbers of a shape; or with a mean and deviation for each, as tensors.", normal_body},
    {"manual_seed(n)",
     "Restarts the random numbers; the same seed gives the same numbers on every device. They are "
     "not torch.manual_seed's: PyTorch's own come from {generator=mt.Generator('mt19937', n)}.",
     bind<[](int64_t n) {
       mark_untraceable();  // a replay continues the generator's stream
       manual_seed(uint64_t(n));
     }>},
    {"get_rng_state()", "The state of the default generator, as a string for set_rng_state.",
     bind<[]() { return default_generator().state(); }>},
    {"set_rng_state(state)", "Restores the state that get_rng_state returned.",
     bind<[](const std::string& state) { default_generator().set_state(state); }>},
    {"Generator(kind='philox', seed=0)",
     "An independent stream of random numbers: 'philox', as after manual_seed(seed), or 'mt19937', "
     "as PyTorch's on the CPU. Methods: manual_seed seed initial_seed get_state set_state.",
     new_generator},
};

const Entry kRandomMethods[] = {
    {"rand_like(x, " MT_DRAWN_LIKE, "Uniform numbers in x's shape.", draw_body<Form::like, rand>},
    {"randn_like(x, " MT_DRAWN_LIKE, "Normal numbers in x's shape.", draw_body<Form::like, randn>},
    {"randint_like(x, first, last, " MT_DRAWN_LIKE, "Integers in x's shape, both ends included.",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       const NewTensorOptions spec(a, 4, x.dtype(), x.device());
       return spec.push(a, randint(a.integer(2), a.integer(3), x.shape(), spec.dtype, spec.device,
                                   generator_at(a, 7)));
     }},
    {"bernoulli(p, shape=nil, dtype=nil, generator=nil)",
     "1 with probability p, else 0: for each element of a tensor p, or a number and a shape.",
     bernoulli_body},
    {"multinomial(weights, n, replacement=false, generator=nil)",
     "n positions (from 1) drawn by weights that need not sum to 1: [classes] gives [n], [rows x "
     "classes] gives [rows x n].",
     bind<[](const Tensor& weights, int64_t n, bool replacement, Generator* g) {
       return Positions{multinomial(weights, n, replacement, g)};
     }>},
    {"normal_(x, mean=0, std=1, generator=nil)", "Fills x with normal numbers.", bind<normal_>},
    {"uniform_(x, from=0, to=1, generator=nil)", "Fills x with uniform numbers in [from, to).",
     bind<uniform_>},
    {"bernoulli_(x, p=0.5, generator=nil)", "Fills x with 1 with probability p, else 0.",
     bind<[](const Tensor& x, const Operand& p, Generator* g) -> const Tensor& {
       return bernoulli_(x, p.value.impl()->number ? float_scalar(p.value.at(0)) : p.value, g);
     }>},
    {"exponential_(x, lambd=1, generator=nil)", "Fills x with exponential numbers of rate lambd.",
     bind<exponential_>},
    {"random_(x, first=nil, last=nil, generator=nil)",
     "Fills x with integers from first to last, by default with all that the dtype can hold.",
     random_in_place},
};

}  // namespace

Generator* generator_at(const Args& a, int i) {
  return a.given(i) ? &Userdata<LuaGenerator>::at(a, i) : nullptr;
}

void register_random(Registry& c) {
  c.functions(kRandomFunctions);
  c.both(kRandomMethods);
}

}  // namespace mt::lua
