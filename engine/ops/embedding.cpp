// embedding.cpp -- rows of a table by ids: embeddings, bags of them, one-hot
#include <cmath>

#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"
#include "engine/ops/weighted_gather.h"

namespace mt {
/// Converts ids to 0-based positions below `size`; throws Error with the place of an invalid one.
static Tensor checked_ids(const char* name, const Index& ids, int64_t size) {
  Index read = integer_positions(name, ids, "ids", "ids");
  read.at = reshape(read.at, {-1});
  const Tensor at = read.from_zero();
  check_counted(IndexBound::id, name, read, at, size);
  return at;
}

/// Checks that the weight is a table with the padding's row; returns that row, or -1.
static int64_t padding_row(const char* name, const Tensor& weight,
                           std::optional<Position> padding) {
  if (weight.dim() != 2)
    fail("{}: the weight is {}; expected (entries x features)", name, weight.shape());
  const int64_t n = weight.size(0);
  const int base = message_base();
  if (!padding) return -1;
  const int64_t row = padding->among(n);
  if (row < 0 || row >= n)
    fail("{}: padding_idx is {}, outside {}..{}", name,
         *padding < 0 ? padding->at : *padding + base, base, n - 1 + base);
  return row;
}

Tensor embedding(const Index& ids, const Tensor& weight, std::optional<Position> padding) {
  const int64_t pad = padding_row("embedding", weight, padding);
  const Tensor at = checked_ids("embedding", ids, weight.size(0));
  const Shape shape = joined(ids.at.shape(), {weight.size(1)});
  checked_count("embedding", shape);
  Tensor rows = index_select(weight, 0, at);
  if (padding && wants_grad(weight)) {
    const Tensor pads = unsqueeze(eq(at, scalar(double(pad), Dtype::i64)), 1);
    rows = where(pads, rows.detach(), rows);
  }
  return reshape(rows, shape);
}

namespace {

/// The position where each bag begins among n ids, and where the last one ends.
std::vector<int64_t> bag_ends(const Index& offsets, int64_t n, bool include_last) {
  const char* name = "embedding_bag";
  if (!is_integer(offsets.at.dtype()) || offsets.at.dim() != 1)
    fail("{}: the offsets are {} {}; expected a row of integers", name, offsets.at.dtype(),
         offsets.at.shape());
  const int64_t base = offsets.first;
  const Tensor begins = to(to(offsets.at, cpu_device()), Dtype::i64);
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < begins.numel(); ++i) {
    const int64_t given = begins.at_integer(i), lowest = i ? ends.back() + base : base,
                  highest = i ? n + base : base;
    if (given < lowest || given > highest)
      fail("{}: offset {} is {}, expected {}..{}; offsets count from {} and never decrease", name,
           i + base, given, lowest, highest, base);
    ends.push_back(given - base);
  }
  if (include_last && ends.empty())
    fail("{}: with include_last_offset at least one offset is needed", name);
  if (!include_last) ends.push_back(n);
  return ends;
}

/// The maximum of each bag's rows: bags become lines of equal length, padded with masked values.
Tensor max_of_bags(const Tensor& rows, const Tensor& kept, const std::vector<int64_t>& ends) {
  const int64_t bags = int64_t(ends.size()) - 1, features = rows.size(1);
  int64_t size = 1;
  for (int64_t b = 0; b < bags; ++b) size = std::max(size, ends[b + 1] - ends[b]);
  std::vector<int64_t> place, valid;
  for (int64_t b = 0; b < bags; ++b) {
    check_interrupt();
    for (int64_t k = 0; k < size; ++k) {
      const int64_t at = ends[b] + k;
      valid.push_back(at < ends[b + 1]);
      place.push_back(valid.back() ? at : 0);
    }
  }
  const Tensor at = to(constants(place), rows.device());
  const Tensor inside = reshape(
      logical_and(index_select(kept, 0, at), to(constants(valid), rows.device())), {bags, size, 1});
  const Tensor lines = reshape(index_select(rows, 0, at), {bags, size, features});
  const Tensor best = max_along(where(inside, lines, -INFINITY), 1).values;
  return where(any(inside, {1}), best, 0.0);
}

/// Calls f(from, count) for runs of the `n` rows, in whole groups of `each`, that fit the cache.
void each_run(const Tensor& x, int64_t n, int64_t each, const auto& f) {
  const int64_t most = is_cpu(x.device()) ? 1 << 15 : 1 << 24,
                row = std::max<int64_t>(x.size(1), 1);
  const int64_t step = std::max<int64_t>(most / row / each, 1) * each;
  for (int64_t from = 0; from < n; from += step) f(from, std::min(step, n - from));
}

/// The sum of x[at[i]] * y[bag[i]] over each row.
Tensor products_of_rows(const Tensor& x, const Tensor& at, const Tensor& y, const Tensor& bag) {
  const auto part = [&](int64_t from, int64_t n) {
    return sum(
        index_select(x, 0, {slice(at, 0, from, n)}) * index_select(y, 0, {slice(bag, 0, from, n)}),
        {1});
  };
  if (grad_enabled()) return part(0, at.numel());
  const Tensor out = empty({at.numel()}, promote(x.dtype(), y.dtype()), x.device());
  each_run(x, at.numel(), 1,
           [&](int64_t from, int64_t n) { copy_elements(slice(out, 0, from, n), part(from, n)); });
  return out;
}

/// [bags x features]: row bag[i] is the sum of x[at[i]] * factor[i], or of x[at[i]] without
/// factors. each > 0: every bag has `each` consecutive rows. All rows are never in memory at once.
Tensor sums_of_rows(const Tensor& x, const Tensor& at, const Tensor& bag, const Tensor& factor,
                    int64_t bags, int64_t each = 0) {
  const Dtype dtype = factor.defined() ? promote(x.dtype(), factor.dtype()) : x.dtype();
  Tensor out;
  if (const NoGrad off; each * bags > 0 && is_cpu(x.device()) && x.is_contiguous() &&
                        x.dtype() == dtype && !is_reduced_float(dtype)) {
    const auto by_place = [&](const Tensor& t) {
      return reshape(transpose(reshape(t, {bags, each}), 0, 1), {1, each, bags});
    };
    const Tensor weight =
        factor.defined() ? by_place(to(factor, dtype)) : ones({1, each, bags}, dtype, x.device());
    const Tensor lines = reshape(x.detach(), {1, 1, x.size(0), x.size(1)});
    out = reshape(weighted_gather(lines, by_place(at), weight), {bags, x.size(1)});
  } else {
    out =
        zeros({bags, x.size(1)}, each || !is_reduced_float(dtype) ? dtype : Dtype::f32, x.device());
    each_run(x, at.numel(), each ? each : 1, [&](int64_t from, int64_t n) {
      Tensor rows = index_select(x, 0, {slice(at, 0, from, n)});
      if (factor.defined()) rows = rows * unsqueeze(slice(factor, 0, from, n), 1);
      if (each)
        copy_elements(slice(out, 0, from / each, n / each),
                      sum(reshape(rows, {n / each, each, x.size(1)}), {1}));
      else index_add(out, 0, {slice(bag, 0, from, n)}, to(rows, out.dtype()), 1, true);
    });
    out = to(out, dtype);
  }
  if (!wants_grad(x, factor)) return out;
  static const NodeType type{"embedding_bag", [](Node& node, const Tensor& g, Tensor* dx) {
                               const Tensor x = node.get(0), at = node.get(1), bag = node.get(2);
                               const Tensor factor = node.get(3);
                               if (node.wants(0))
                                 dx[0] = to(sums_of_rows(g, bag, at, factor, x.size(0)), x.dtype());
                               if (node.wants(1))
                                 dx[1] = to(products_of_rows(x, at, g, bag), factor.dtype());
                             }};
  record(type, out, {&x, &factor})
      .save(0, x, 0)
      .save(1, at, Node::kOther)
      .save(2, bag, Node::kOther)
      .save(3, factor, 1);
  return out;
}

}  // namespace

Tensor embedding_bag(const Index& all_ids, const Tensor& weight,
                     const std::optional<Index>& offsets, Bag mode, const Tensor& per_sample,
                     bool include_last, std::optional<Position> padding) {
  const char* name = "embedding_bag";
  const Tensor& ids = all_ids.at;
  if (ids.dim() != 1 && ids.dim() != 2)
    fail("{}: the ids are {}; expected (bags x ids), or 1-d with offsets", name, ids.shape());
  if (offsets.has_value() != (ids.dim() == 1))
    fail("{}: {}", name,
         ids.dim() == 1 ? "1-d ids need offsets, the beginning of each bag"
                        : "offsets are for 1-d ids, not for (bags x ids)");
  check_float(name, weight, "the weight is", "weight");
  if (per_sample.defined() && mode != Bag::sum)
    fail("{}: per_sample_weights are for mode 'sum'", name);
  if (per_sample.defined() && per_sample.shape() != ids.shape())
    fail("{}: per_sample_weights are {}, the ids {}; they must be equal", name, per_sample.shape(),
         ids.shape());
  const int64_t n = ids.numel();
  std::vector<int64_t> ends;
  if (offsets) ends = bag_ends(*offsets, n, include_last);
  else
    for (int64_t b = 0; b <= ids.size(0); ++b) ends.push_back(b * ids.size(1));
  const int64_t bags = int64_t(ends.size()) - 1, used = ends.back();
  const Index flat{slice(reshape(ids, {n}), 0, 0, used), all_ids.first};
  const int64_t pad = padding_row(name, weight, padding);
  Tensor at = checked_ids(name, flat, weight.size(0)), kept;
  if (padding) kept = ne(at, scalar(double(pad), Dtype::i64));
  if (mode == Bag::max && bags > 0 && used * weight.size(1) > 0)
    return max_of_bags(embedding(flat, weight, padding),
                       padding ? kept : ones({used}, Dtype::b8, weight.device()), ends);
  int64_t each = offsets ? 0 : ids.size(1);
  Tensor bag = constants<int64_t>({used}, [&](int64_t* p) {
    for (int64_t b = 0; b < bags; ++b) {
      check_interrupt();
      std::fill(p + ends[b], p + ends[b + 1], b);
    }
  });
  bag = to(bag, weight.device());
  Tensor factor = per_sample;
  if (factor.defined()) factor = slice(reshape(factor, {n}), 0, 0, used);
  if (padding) {
    at = masked_select(at, kept), bag = masked_select(bag, kept), each = 0;
    if (factor.defined()) factor = masked_select(factor, kept);
  }
  const Tensor sums = sums_of_rows(weight, at, bag, factor, bags, each);
  if (mode != Bag::mean) return sums;
  if (each) return sums / double(each);
  const Tensor counts = index_add(zeros({bags}, sums), 0, bag, ones(bag.shape(), sums));
  return sums / unsqueeze(maximum(counts, 1.0), 1);
}

Tensor one_hot(const Index& given, std::optional<int64_t> classes) {
  const Tensor& ids = given.at;
  if (classes && *classes < 1) fail("one_hot: num_classes is {}, it must be at least 1", *classes);
  if (!classes && ids.numel() == 0) fail("one_hot: without ids, num_classes is needed");
  const Tensor at = checked_ids("one_hot", given, classes ? *classes : INT64_MAX);
  const int64_t n = classes ? *classes : amax(at).at_integer(0) + 1;
  const Shape shape = joined(ids.shape(), {n});
  checked_count("one_hot", shape);
  if (at.numel() == 0) return zeros(shape, Dtype::i64, ids.device());
  const Tensor column = unsqueeze(at, 1);
  return reshape(scatter_add(zeros({at.numel(), n}, Dtype::i64, ids.device()), 1, column,
                             ones(column.shape(), Dtype::i64, ids.device())),
                 shape);
}

}  // namespace mt
