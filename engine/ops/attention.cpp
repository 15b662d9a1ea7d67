// attention.cpp -- attention in blocks of queries: the scores of all queries are never in memory at
// once, and backward recomputes them (Dao 2022, "FlashAttention"; Rabe and Staats 2021)
//
// On a GPU, 16-bit attention without a mask or dropout is one verb.

#include <algorithm>
#include <climits>
#include <cmath>

#include "engine/autograd/function.h"
#include "engine/core/async_errors.h"
#include "engine/ops/generator.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

const char* const kAttention = "scaled_dot_product_attention";

/// [batch x heads x length x features]; the mask broadcasts to [batch x heads x queries x keys]. For
/// the verb several heads of the query may share a key and a value.
struct Attention {
  Tensor q, k, v, mask;
  double scale, dropout;
  bool causal;
  uint64_t seed, counter;  // the position in the random stream where dropout's numbers begin
  bool bf16 = false;       // operands of products may be rounded to bfloat16

  int64_t batch() const { return q.size(0); }
  int64_t heads() const { return q.size(1); }
  int64_t queries() const { return q.size(2); }
  int64_t keys() const { return k.size(2); }
  Shape scores() const { return {batch(), heads(), queries(), keys()}; }
};

/// Ranges of batches, heads and queries, and the number of keys (the first ones) they attend to.
struct Block {
  int64_t first[3], n[3], keys;

  /// Slices a tensor whose dimensions are batch, heads and queries.
  Tensor of(const Tensor& x) const {
    Tensor part = of_keys(x);
    return x.size(2) == 1 ? part : slice(part, 2, first[2], n[2]);
  }
  /// Slices a tensor whose third dimension is not the queries.
  Tensor of_keys(const Tensor& x) const {
    const Tensor part = x.size(0) == 1 ? x : slice(x, 0, first[0], n[0]);
    return x.size(1) == 1 ? part : slice(part, 1, first[1], n[1]);
  }
};

/// out (+)= x . y
void multiply(const Attention& a, const Tensor& out, const Tensor& x, const Tensor& y,
              bool accumulate = false) {
  if (a.bf16) rounded_matmul_into(kAttention, out, x, y, accumulate);
  else matmul_into(kAttention, out, x, y, accumulate);
}
Tensor product(const Attention& a, const Tensor& x, const Tensor& y) {
  if (!a.bf16) return matmul(x, y);
  const Tensor out = empty({x.size(0), x.size(1), x.size(2), y.size(3)}, x);
  multiply(a, out, x, y);
  return out;
}

/// Splits the work into blocks whose scores fit a CPU's cache, or occupy a GPU. If the mask is causal, blocks of
/// few queries leave out most of the keys that those do not attend to.
std::vector<Block> blocks_of(const Attention& a) {
  const bool cpu = is_cpu(a.q.device());
  const int64_t most = cpu ? 1 << 18 : 1 << 26, row = std::max<int64_t>(a.keys(), 1),
                queries = cpu && a.causal ? std::clamp<int64_t>(row / 4, 64, 256) : a.queries();
  const int64_t all[] = {a.batch(), a.heads(), a.queries()};
  if (all[0] * all[1] * all[2] == 0) return {};
  int64_t n[] = {1, 1, 1}, each = row;
  n[2] = std::min({all[2], queries, std::max<int64_t>(most / each, 16)});
  each *= std::max<int64_t>(n[2], 1);
  // The random numbers of a block lie together.
  const bool joins = n[2] == all[2] || a.dropout == 0;
  if (joins) n[1] = std::min(all[1], std::max<int64_t>(most / each, 1)), each *= n[1];
  if (joins && n[1] == all[1]) n[0] = std::min(all[0], std::max<int64_t>(most / each, 1));
  std::vector<Block> list;
  for (int64_t b = 0; b < all[0]; b += n[0])
    for (int64_t h = 0; h < all[1]; h += n[1])
      for (int64_t i = 0; i < all[2]; i += n[2]) {
        Block k{{b, h, i}, {}, a.keys()};
        for (int d = 0; d < 3; ++d) k.n[d] = std::min(n[d], all[d] - k.first[d]);
        if (a.causal) k.keys = std::min(k.keys, i + k.n[2]);
        list.push_back(k);
      }
  return list;
}

/// 0 or 1 / (1 - p) for each score of a block: the same numbers as one draw for all scores gives.
Tensor dropout_factors(const Attention& a, const Block& k) {
  const int64_t first =
                    ((k.first[0] * a.heads() + k.first[1]) * a.queries() + k.first[2]) * a.keys(),
                n = k.n[0] * k.n[1] * k.n[2] * a.keys(), group = 4, before = first % group;
  const Tensor drawn = empty({before + n}, Dtype::f32, a.q.device());
  drawn.device().random({Distribution::uniform, Dtype::f32, drawn.data(), before + n, a.seed,
                         a.counter + uint64_t(first / group), 0, 0});
  const Tensor u = reshape(slice(drawn, 0, before, n), {k.n[0], k.n[1], k.n[2], a.keys()});
  const Tensor kept = ge(slice(u, 3, 0, k.keys), a.dropout);
  return to(kept, a.q.dtype()) * (a.dropout < 1 ? 1 / (1 - a.dropout) : 0);
}

/// The causal mask for some queries, and the keys from `from` to before `to`: query i attends to the keys j <= i.
Tensor causal_mask(const Attention& a, int64_t first, int64_t queries, int64_t from, int64_t to) {
  const auto count = [&](int64_t from, int64_t n) {
    return range(double(from), double(from + n - 1), 1, Dtype::i64, a.q.device());
  };
  return ge(unsqueeze(count(first, queries), 1), count(from, to - from));
}

/// The keys that a mask allows, as a bool tensor.
Tensor allowed_keys(const Tensor& mask) {
  return mask.dtype() == Dtype::b8 ? mask : ne(mask, -INFINITY);
}

/// Whether each query has a key that is allowed; undefined if every row of the mask has one.
Tensor some_key(const Tensor& mask) {
  if (!mask.defined()) return {};
  const Tensor some = any(allowed_keys(mask), {-1}, true);
  return reports_synchronously(some.device()) && all(some).item() != 0 ? Tensor() : some;
}

Tensor masked(const Tensor& scores, const Tensor& mask) {
  if (mask.dtype() == Dtype::b8) return where(mask, scores, -INFINITY);
  return scores + to(mask, scores.dtype());
}

/// The probabilities of a block, for queries that are already scaled.
Tensor probabilities(const Attention& a, const Tensor& q, const Tensor& some, const Block& k) {
  Tensor s = product(a, k.of(q), transpose(slice(k.of_keys(a.k), 2, 0, k.keys), 2, 3));
  Tensor has_key = some.defined() ? k.of(some) : some, order;
  const int64_t before = k.first[2];  // keys that all queries of the block attend to
  if (a.causal && k.keys > before + 1) {
    if (a.mask.defined()) {
      s = masked(s, order = causal_mask(a, before, k.n[2], 0, k.keys));
    } else {
      const Tensor part = slice(s, 3, before, k.keys - before);
      copy_(part, masked(part, causal_mask(a, before, k.n[2], before, k.keys)));
    }
  }
  if (a.mask.defined()) {
    const Tensor mask = k.of(a.mask), part = mask.size(3) == 1 ? mask : slice(mask, 3, 0, k.keys);
    s = masked(s, part);
    const Tensor allowed = a.causal ? allowed_keys(part) : Tensor();
    if (a.causal)
      has_key = any(order.defined() ? logical_and(order, allowed) : allowed, {-1}, true);
  }
  s = softmax(s, -1);
  return has_key.defined() ? where(has_key, s, 0.0) : s;
}

/// Whether x has strides as [batch x length x heads x features]: a slice of one projection.
bool heads_inside(const Tensor& x) {
  return x.stride(1) < x.stride(2) && x.size(1) > 1 && x.size(2) > 1;
}
/// x * factor, with the memory order of x.
Tensor scaled(const Tensor& x, double factor) {
  if (!heads_inside(x)) return x * factor;
  return transpose(transpose(x, 1, 2) * factor, 1, 2);
}
/// A tensor with x's leading sizes and memory order and `features` features; zeros if `cleared`.
Tensor with_layout_of(const Tensor& x, int64_t features, bool cleared = false) {
  const bool inside = heads_inside(x);
  const int64_t b = x.size(0), h = x.size(1), n = x.size(2);
  const Shape shape = inside ? Shape{b, n, h, features} : Shape{b, h, n, features};
  const Tensor t = cleared ? zeros(shape, x) : empty(shape, x);
  return inside ? transpose(t, 1, 2) : t;
}

/// Returns the result and, if there is only one block, its probabilities too.
TensorList forward(const Attention& a, const Tensor& some) {
  const Tensor q = scaled(a.q, a.scale), out = with_layout_of(a.q, a.v.size(3));
  const std::vector<Block> list = blocks_of(a);
  Tensor p;
  for (const Block& k : list) {
    check_interrupt();
    p = probabilities(a, q, some, k);
    multiply(a, k.of(out), a.dropout > 0 ? p * dropout_factors(a, k) : p,
             slice(k.of_keys(a.v), 2, 0, k.keys));
  }
  if (list.size() == 1) return {out, p};
  return {out};
}

TensorList backward(const Attention& a, const Tensor& some, const Tensor& known, const Tensor& g) {
  const std::vector<Block> list = blocks_of(a);
  const Tensor q = scaled(a.q, a.scale), scaled_k = scaled(a.k, a.scale);
  const bool adds = list.size() != 1 || list[0].keys < a.keys();
  const Tensor dq = with_layout_of(a.q, a.q.size(3)), dk = with_layout_of(a.k, a.k.size(3), adds),
               dv = with_layout_of(a.v, a.v.size(3), adds);
  for (const Block& b : list) {
    check_interrupt();
    const auto seen = [&](const Tensor& x) { return slice(b.of_keys(x), 2, 0, b.keys); };
    const Tensor p = known.defined() ? known : probabilities(a, q, some, b), slope = b.of(g);
    Tensor dp = product(a, slope, transpose(seen(a.v), 2, 3)), used = p;
    if (a.dropout > 0) {
      const Tensor factors = dropout_factors(a, b);
      dp = dp * factors, used = p * factors;
    }
    multiply(a, seen(dv), transpose(used, 2, 3), slope, adds);
    const Tensor ds = softmax_gradient(p, dp);
    multiply(a, b.of(dq), ds, seen(scaled_k));
    multiply(a, seen(dk), transpose(ds, 2, 3), b.of(q), adds);
  }
  return {dq, dk, dv};
}

// ---- the verb -----------------------------------------------------------------------------------

/// x, or a copy whose features are contiguous and whose rows are aligned to 16 bytes.
Tensor align(const Tensor& x) {
  bool aligned = reinterpret_cast<uintptr_t>(x.data()) % 16 == 0 && x.stride(3) == 1;
  for (int d = 0; d < 3; ++d) aligned = aligned && (x.size(d) == 1 || x.stride(d) % 8 == 0);
  return aligned ? x : clone(x);
}
AttentionSide side(const Tensor& x) { return {x.data(), x.stride(0), x.stride(1), x.stride(2)}; }
Tensor sums_for(const Tensor& q) {
  return empty({q.size(0), q.size(1), attention_rows(q.size(2))}, Dtype::f32, q.device());
}

bool suits_verb(const Attention& a) {
  const Tensor &q = a.q, &k = a.k, &v = a.v;
  if (!is_half(q.dtype()) || !(a.scale > 1e-30 && a.scale < 1e30)) return false;
  for (const Tensor* x : {&q, &k, &v}) {
    if (x->dtype() != q.dtype() || &x->device() != &q.device()) return false;
    if (x->numel() == 0 || x->size(0) != q.size(0) || x->size(3) % 8 != 0) return false;
    if (x->size(3) > kAttentionFeatures || x->size(2) > INT_MAX / 2) return false;
  }
  const int64_t blocks = q.size(0) * q.size(1) * ((std::max(q.size(2), k.size(2)) + 63) / 64);
  return k.size(1) == v.size(1) && q.size(1) % k.size(1) == 0 && k.size(2) == v.size(2) &&
         q.size(3) == k.size(3) && blocks < INT_MAX;
}

/// The verb's arguments for aligned tensors.
FlashAttention call(const Attention& a, const Tensor& out, const Tensor& log_sums) {
  FlashAttention f{};
  f.dtype = a.q.dtype(), f.causal = a.causal, f.scale = float(a.scale);
  f.batch = a.batch(), f.heads = int(a.heads()), f.shared_heads = int(a.k.size(1));
  f.queries = int(a.queries()), f.keys = int(a.keys());
  f.features = int(a.q.size(3)), f.value_features = int(a.v.size(3));
  f.q = side(a.q), f.k = side(a.k), f.v = side(a.v), f.out = side(out);
  f.log_sums = log_sums.argument_as<float>();
  return f;
}
/// The result, and the logarithms of the softmax's sums.
TensorList forward_by_verb(Attention a) {
  a.q = align(a.q), a.k = align(a.k), a.v = align(a.v);
  const Tensor out = with_layout_of(a.q, a.v.size(3)), log_sums = sums_for(a.q);
  a.q.device().flash_attention(call(a, out, log_sums));
  return {out, log_sums};
}
TensorList backward_by_verb(Attention a, const Tensor& out, const Tensor& log_sums,
                            const Tensor& slope) {
  a.q = align(a.q), a.k = align(a.k), a.v = align(a.v);
  const Tensor grad = align(slope), delta = sums_for(a.q);
  const Tensor dq = with_layout_of(a.q, a.q.size(3)), dk = with_layout_of(a.k, a.k.size(3)),
               dv = with_layout_of(a.v, a.v.size(3));
  FlashAttention f = call(a, out, log_sums);
  f.backward = true, f.delta = delta.argument_as<float>();
  f.grad = side(grad), f.q_grad = side(dq), f.k_grad = side(dk), f.v_grad = side(dv);
  a.q.device().flash_attention(f);
  return {dq, dk, dv};
}

// ---- recording ----------------------------------------------------------------------------------

/// Repeats the heads of a key or a value so that each head of the query has its own.
Tensor repeat_heads(const Tensor& q, const Tensor& x) {
  const int64_t heads = q.dim() < 3 ? 0 : q.size(q.dim() - 3),
                given = x.dim() < 3 ? 0 : x.size(x.dim() - 3);
  if (given == 0 || heads % given != 0)
    fail("{}: with enable_gqa the heads of the query {} must be a multiple of those of {}",
         kAttention, q.shape(), x.shape());
  return heads == given ? x : repeat_interleave(x, heads / given, -3);
}

/// The same in recorded operations, with all scores in memory. Queries without an allowed key
/// attend to all keys, and their result is set to 0, so that no gradient is NaN.
Tensor composed(const Attention& a) {
  const Block whole{{0, 0, 0}, {a.batch(), a.heads(), a.queries()}, a.keys()};
  Tensor s = matmul(a.q * a.scale, transpose(a.k, 2, 3)), allowed;
  if (a.causal) allowed = causal_mask(a, 0, a.queries(), 0, a.keys());
  if (a.mask.defined()) {
    const Tensor keys = allowed_keys(a.mask);
    allowed = allowed.defined() ? logical_and(allowed, keys) : keys;
    if (a.mask.dtype() != Dtype::b8) s = s + to(where(keys, a.mask, 0.0), s.dtype());
  }
  Tensor some;
  if (allowed.defined()) {
    some = any(allowed, {-1}, true);
    s = where(logical_or(allowed, logical_not(some)), s, -INFINITY);
  }
  Tensor p = softmax(s, -1);
  if (some.defined()) p = where(some, p, 0.0);
  if (a.dropout > 0) p = p * dropout_factors(a, whole);
  return matmul(p, a.v);
}

/// The result, with a node if an input requires a gradient.
Tensor recorded(const Attention& a, bool by_verb) {
  const Tensor some = a.causal ? Tensor() : some_key(a.mask);
  if (wants_grad(a.mask)) return composed(a);
  TensorList made;
  {
    NoGrad off;
    made = by_verb ? forward_by_verb(a) : forward(a, some);
  }
  if (!wants_grad(a.q, a.k, a.v)) return made[0];
  const Tensor p = !by_verb && made.size() > 1 ? made[1] : Tensor();
  TensorList save{a.q, a.k, a.v, a.mask};
  if (by_verb) save.insert(save.end(), made.begin(), made.end());
  Attention rest = a;
  rest.q.reset(), rest.k.reset(), rest.v.reset(), rest.mask.reset();
  const auto backward_fn = [=](const TensorList& g) -> TensorList {
    const TensorList saved = saved_tensors();
    Attention in = rest;
    in.q = saved[0], in.k = saved[1], in.v = saved[2], in.mask = saved[3];
    if (!grad_enabled())
      return by_verb ? backward_by_verb(in, saved[4], saved[5], g[0]) : backward(in, some, p, g[0]);
    return recorded_gradients(
        [&](const TensorList& x) {
          Attention again = in;
          again.q = x[0], again.k = x[1], again.v = x[2];
          if (by_verb) again.k = repeat_heads(x[0], x[1]), again.v = repeat_heads(x[0], x[2]);
          return TensorList{composed(again)};
        },
        {in.q, in.k, in.v}, g);
  };
  return record_function(kAttention, {a.q, a.k, a.v}, {made[0]}, {}, save, backward_fn)[0];
}

/// Runs the verb for tensors of 2 to 4 dimensions; heads may be `shared`. Undefined if the device
/// cannot.
Tensor try_verb(Tensor q, Tensor k, Tensor v, bool causal, std::optional<double> scale,
                bool shared) {
  if (!q.device().verbs.flash_attention || q.dim() > 4 || q.dim() < 2) return {};
  const int dims = q.dim();
  if (k.dim() != dims || v.dim() != dims ||
      (dims > 2 ? !shared && k.size(-3) != q.size(-3) : shared))
    return {};
  for (int d = dims; d < 4; ++d) q = unsqueeze(q, 0), k = unsqueeze(k, 0), v = unsqueeze(v, 0);
  const Attention a{q, k,      v, {}, scale ? *scale : 1 / std::sqrt(double(q.size(-1))),
                    0, causal, 0, 0};
  if (!suits_verb(a)) return {};
  Tensor out = recorded(a, true);
  for (int d = dims; d < 4; ++d) out = squeeze(out, 0);
  return out;
}

/// Reshapes x, whose sizes before the last two are `lead`, to [batch x heads x ..].
Tensor to_4d(const Tensor& x, const Shape& lead) {
  const int last = std::max(lead.size() - 1, 0);
  const Shape matrix = x.shape().from(x.dim() - 2),
              four = joined({product(lead.first(last)), product(lead.from(last))}, matrix);
  return x.shape() == four ? x : reshape(expand(x, joined(lead, matrix)), four);
}

/// Reshapes the mask to four dimensions, with size 1 where it broadcasts.
Tensor mask_to_4d(const Tensor& mask, const Attention& a, const Shape& lead, const Shape& scores) {
  if (mask.dtype() != Dtype::b8 && !is_float(mask.dtype()))
    fail("{}: attn_mask is {}; use a bool or a float tensor", kAttention, mask.dtype());
  if (broadcast(kAttention, scores, mask.shape()) != scores)
    fail("{}: attn_mask is {}, the scores are {}", kAttention, mask.shape(), scores);
  check_together(kAttention, a.q, mask);
  Tensor m = mask;
  while (m.dim() < 4) m = unsqueeze(m, 0);
  if (m.dim() == 4 && lead.size() <= 2) return m;
  return to_4d(m, lead);
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double dropout_p,
           bool causal) {
  if (q.dim() < 2 || k.dim() < 2 || v.dim() < 2)
    fail("{}: query, key and value are {}, {} and {}; each needs (.. x length x features)",
         kAttention, q.shape(), k.shape(), v.shape());
  if (k.size(-1) != q.size(-1))
    fail("{}: the query {} and the key {} have different last sizes", kAttention, q.shape(),
         k.shape());
  if (v.size(-2) != k.size(-2))
    fail("{}: the key {} and the value {} have different lengths", kAttention, k.shape(),
         v.shape());
  for (const Tensor& x : {q, k, v}) {
    check_float(kAttention, x, "an input is");
    check_together(kAttention, q, x);
  }
  const bool of_keys = mask.defined() && mask.dim() > 1 && mask.size(-2) == 1;
  if (causal && mask.defined() && !of_keys)
    fail("{}: give attn_mask or is_causal, not both (except a mask of keys, [.. x 1 x keys])",
         kAttention);
  if (!(dropout_p >= 0 && dropout_p <= 1))
    fail("{}: dropout_p is {}, it must lie in 0..1", kAttention, show(dropout_p));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask, double dropout_p, bool causal,
                                    std::optional<double> scale, bool gqa) {
  if (!mask.defined() && dropout_p == 0) {
    const Tensor out = try_verb(q, k, v, causal, scale, gqa);
    if (out.defined()) return out;
  }
  if (gqa)
    return scaled_dot_product_attention(q, repeat_heads(q, k), repeat_heads(q, v), mask, dropout_p,
                                        causal, scale);
  check(q, k, v, mask, dropout_p, causal);
  const auto leading = [](const Tensor& x) { return x.shape().first(x.dim() - 2); };
  const Shape lead =
      broadcast(kAttention, broadcast(kAttention, leading(q), leading(k)), leading(v));
  const Dtype dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  // The tensor cores of a GPU compute with 16-bit floats directly.
  const Dtype computed = product_dtype(dtype, q.device());
  const int64_t e = q.size(-1), l = q.size(-2), s = k.size(-2);
  const auto four = [&](const Tensor& x) { return to_4d(to(x, computed), lead); };
  Attention a{four(q),   four(k), four(v), {}, scale ? *scale : 1 / std::sqrt(double(e)),
              dropout_p, causal,  0,       0};
  int exponent;  // a power of 2 as the scale: a scaled query has no more bits
  a.bf16 = dtype == Dtype::bf16 && computed == Dtype::f32 && std::frexp(a.scale, &exponent) == 0.5;
  if (mask.defined()) { a.mask = mask_to_4d(mask, a, lead, joined(lead, {l, s})); }
  if (dropout_p > 0) {
    Generator& from = default_generator();
    a.seed = from.initial_seed(), a.counter = from.counter();
    from.set_counter(a.counter + uint64_t((checked_count(kAttention, a.scores()) + 3) / 4));
  }
  const Shape shape = joined(lead, {l, v.size(-1)});
  const Tensor out = recorded(a, false);
  return to(out.shape() == shape ? out : reshape(out, shape), dtype);
}

}  // namespace mt
