// autocast.cpp -- the float type in which a function of Lua computes: 16-bit floats, and mt.autocast
//
// Conversions are recorded, so gradients have the arguments' own types. Operations that are not
// listed get their arguments unchanged: the engine promotes, and computes 16-bit floats in float32,
// rounding each result.
#include "bindings/core/autocast.h"

#include <algorithm>
#include <string_view>

#include "bindings/functions/functions.h"
#include "engine/autograd/function.h"
#include "engine/core/device.h"

namespace mt::lua {
namespace {

struct List {
  AutocastClass casting;
  const char* names;  // separated by spaces
};
/// As in torch.amp, with one list for all devices; elementwise operations, reductions and scans
/// declare their class in kernels/.
constexpr List kLists[] = {
    {AutocastClass::half,
     " matmul mm bmm mv dot vdot inner addmm addmv baddbmm addbmm linear bilinear einsum tensordot "
     "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv1d_anchored "
     "conv2d_anchored "
     "scaled_dot_product_attention recurrent_layer "},
    {AutocastClass::float32,
     " softmax log_softmax softmin layer_norm rms_norm group_norm instance_norm "},
    {AutocastClass::internal_float32,
     " avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
     "interpolate batch_norm glu quantile nanquantile "},
    {AutocastClass::float32_round,
     " mean nanmean std var_mean std_mean cov norm normalize cdist cosine_similarity "
     "pairwise_distance mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
     "binary_cross_entropy_with_logits cross_entropy nll_loss kl_div margin_ranking_loss "
     "hinge_embedding_loss cosine_embedding_loss triplet_margin_loss "
     "gaussian_nll_loss poisson_nll_loss multi_margin_loss multilabel_margin_loss ctc_loss grid_sample "}};

/// Whether the function writes to this argument: the change would be lost in a converted copy.
bool is_written(const Entry& e, int i) {
  const auto& params = signature_of(e).params;
  return size_t(i) <= params.size() && params[i - 1].name.starts_with("running_");
}

/// Calls `f(tensor)` for the tensors among the arguments, also in lists; its result replaces them.
void each_tensor(lua_State* L, const Entry& e, int top, const auto& f) {
  for (int i = 1; i <= top; ++i) {
    if (is_written(e, i)) continue;
    if (const Tensor* t = tensor_at(L, i)) {
      const Tensor other = f(*t);
      if (other.impl() == t->impl()) continue;
      push_tensor(L, other);
      lua_replace(L, i);
      continue;
    }
    if (lua_type(L, i) != LUA_TTABLE) continue;
    bool copied = false;  // the script's list does not change
    each_entry(L, i, [&](int k) {
      const Tensor* t = tensor_at(L, -1);
      const Tensor other = t ? f(*t) : Tensor();
      if (!t || other.impl() == t->impl()) return;
      if (!copied) {
        lua_newtable(L);
        const int copy = lua_gettop(L);
        each_entry(L, i, [&](int j) {
          lua_pushvalue(L, -1);
          lua_rawseti(L, copy, j);
        });
        lua_replace(L, i);
        copied = true;
      }
      push_tensor(L, other);
      lua_rawseti(L, i, k);
    });
  }
}

/// Converts a float tensor for autocast. float64 does not change, as in PyTorch.
Tensor lowered(const Tensor& x) {
  const Dtype to_dtype =
      is_cpu(x.device()) ? thread_state.autocast.cpu : thread_state.autocast.cuda;
  const bool takes_part = x.dtype() == Dtype::f32 || is_reduced_float(x.dtype());
  if (to_dtype == Dtype::none || !takes_part) return x;
  const Tensor y = to(x, to_dtype);
  note_cast(x, y);
  return y;
}
Tensor half_to_float32(const Tensor& x) {
  return is_reduced_float(x.dtype()) ? to(x, Dtype::f32) : x;
}

/// Whether the call has an argument for the dtype of the result.
bool names_dtype(const Args& a) {
  const auto& params = signature_of(a.entry()).params;
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == "dtype") return a.given(int(i + 1));
  return false;
}

// ---- mt.autocast -----------------------------------------------------------------------------------

/// The options of mt.autocast{fn, .., dtype=, device=, enabled=}: the table at index 1.
Autocast read_options(const Args& a) {
  static const Signature known = parse_signature(
      "autocast(dtype: 'float16'|'bfloat16', device: 'cpu'|'cuda', enabled: bool)", nullptr, 0);
  Autocast now{Dtype::bf16, Dtype::f16};
  bool enabled = true;
  std::string device;
  each_named(a.L, 1, [&](const std::string& key) {
    const auto p = std::ranges::find(known.params, key, &Param::name);
    if (p == known.params.end())
      fail("autocast: unknown option '{}'{}", key,
           advice(a.L, "autocast", key, {"dtype", "device", "enabled"}));
    if (!a.fits(*p, lua_gettop(a.L)))
      fail("autocast: {} must be {}, got {}", key, p->expected(), describe(a.L, -1));
    if (key == "dtype") now.cpu = now.cuda = dtype_named(lua_tostring(a.L, -1));
    else if (key == "device") device = lua_tostring(a.L, -1);
    else enabled = lua_toboolean(a.L, -1);
  });
  if (!enabled) now = {Dtype::none, Dtype::none};
  if (device == "cpu") now.cuda = thread_state.autocast.cuda;
  if (device == "cuda") now.cpu = thread_state.autocast.cpu;
  return now;
}

/// autocast(fn, ..) or autocast{fn, .., dtype=}: options are in the table, arguments in its list
/// part.
int autocast_body(Args& a) {
  lua_State* L = a.L;
  Autocast now{Dtype::bf16, Dtype::f16};
  if (lua_type(L, 1) != LUA_TTABLE || luaL_getmetafield(L, 1, "__call")) {
    lua_settop(L, a.count() - lua_istable(L, 1));
  } else {
    if (a.count() > 1)
      fail(
          "autocast: options go into one table with the function and its arguments: "
          "mt.autocast{{fn, x, dtype='float16'}}");
    now = read_options(a);
    const int n = int(lua_objlen(L, 1));
    luaL_checkstack(L, n + 4, "too many arguments");
    for (int i = 1; i <= n; ++i) lua_rawgeti(L, 1, i);
    lua_remove(L, 1);
  }
  const SaveAndRestore scope(thread_state.autocast, now);
  return a.call_function(1);
}

int is_autocasting(Args& a) {
  const Autocast& now = thread_state.autocast;
  return a.push((a.text(1) == "cpu" ? now.cpu : now.cuda) != Dtype::none);
}

const Entry kAutocastFunctions[] = {
    {"autocast(fn, ..)",
     "Calls fn with the arguments and returns its results; inside, products, linear, convolutions "
     "and recurrent layers of float32 run in 16 bits (bfloat16 on the CPU, float16 on a GPU), exp, "
     "log, sums, norms and losses in float32, all else in the widest dtype of its inputs. Call "
     "backward outside.\n"
     "With options as one table: mt.autocast{fn, x, dtype='bfloat16', device='cuda', enabled=true}.",
     autocast_body},
    {"is_autocast_enabled(device: 'cpu'|'cuda' = 'cpu')",
     "Whether mt.autocast is active for a kind of device.", is_autocasting},
};

}  // namespace

AutocastClass autocast_class_of(const Entry& e) {
  const std::string name = name_of(e), key = " " + name + " ";
  AutocastClass found = AutocastClass::none;
  if (const int op = op_named(name); op >= 0 && op_row(op).info->facts.autocast_float32)
    found = AutocastClass::float32;
  for (int i = 0; i < kReductions + kScans; ++i) {
    const op::ReduceInfo& info =
        *(i < kReductions ? reduce_row(i) : scan_row(i - kReductions)).info;
    if (!info.doc || name != info.name) continue;
    if (info.autocast == op::Autocast::float32) found = AutocastClass::float32;
    if (info.autocast == op::Autocast::float32_round) found = AutocastClass::float32_round;
  }
  for (const List& list : kLists)
    if (std::string_view(list.names).find(key) != std::string_view::npos) found = list.casting;
  e.autocast_class.store(uint8_t(found), std::memory_order_relaxed);
  return found;
}

int run_cast(Args& a, AutocastClass casting) {
  lua_State* L = a.L;
  const bool on = thread_state.autocast.on();
  if (casting == AutocastClass::none ||
      (!on && (casting == AutocastClass::half || casting == AutocastClass::float32)))
    return a.entry().body(a);
  const int top = a.out() ? a.out() - 1 : lua_gettop(L);
  luaL_checkstack(L, 8, "casting");
  if (casting == AutocastClass::half) {
    each_tensor(L, a.entry(), top, lowered);
    return a.entry().body(a);
  }
  bool any = false;
  Dtype all = Dtype::none;  // the promoted dtype of the float arguments
  each_tensor(L, a.entry(), top, [&](const Tensor& x) {
    if (is_float(x.dtype())) all = promote(all, x.dtype());
    any |= is_reduced_float(x.dtype());
    return x;
  });
  if (!any) return a.entry().body(a);
  each_tensor(L, a.entry(), top, half_to_float32);
  const int results = a.entry().body(a);
  const bool rounds = is_reduced_float(all) && (casting == AutocastClass::internal_float32 ||
                                                (casting == AutocastClass::float32_round && !on));
  if (!rounds || names_dtype(a)) return results;
  for (int i = lua_gettop(L) - results + 1; i <= lua_gettop(L); ++i) {
    const Tensor* t = tensor_at(L, i);
    if (!t || t->dtype() != Dtype::f32) continue;
    push_tensor(L, to(*t, all));
    lua_replace(L, i);
  }
  return results;
}

void register_mixed(Registry& c) { c.functions(kAutocastFunctions); }

}  // namespace mt::lua
