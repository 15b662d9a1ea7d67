// einsum.cpp -- sums of products over named dimensions: parser, sizes, the order of contraction
#include <algorithm>
#include <bitset>
#include <cctype>
#include <functional>
#include <span>

#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// The names of dimensions: the letter, or 0, 1, .. from the left for those of an ellipsis.
using Labels = Shape;
constexpr int kLabels = 128;
using Set = std::bitset<kLabels>;
constexpr char kDots = '.';  // an ellipsis after parsing

// ---- reading ------------------------------------------------------------------------------------

struct Expression {
  std::vector<std::string> inputs{""};
  std::string output;
  bool arrow = false;
};

Expression read(std::string_view text) {
  Expression e;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& term = e.arrow ? e.output : e.inputs.back();
    if (c == ' ') continue;
    if (std::isalpha(static_cast<unsigned char>(c))) {
      if (e.arrow && term.find(c) != std::string::npos)
        fail("einsum: '{}' occurs more than once in the output of '{}'", c, text);
      term += c;
    } else if (c == '.') {
      if (text.substr(i, 3) != "...")
        fail("einsum: a lone '.' in '{}'; an ellipsis is '...'", text);
      if (term.find(kDots) != std::string::npos)
        fail("einsum: '...' occurs twice in one term of '{}'", text);
      term += kDots;
      i += 2;
    } else if (c == ',' && !e.arrow) {
      e.inputs.emplace_back();
    } else if (c == '-' && text.substr(i, 2) == "->" && !e.arrow) {
      e.arrow = true;
      ++i;
    } else {
      fail(
          "einsum: '{}' at character {} of '{}' is not allowed there; terms of letters and '...' are "
          "separated by ',', then '->' and one term may follow",
          std::isprint(static_cast<unsigned char>(c)) ? std::string(1, c) : "?", i + 1, text);
    }
  }
  return e;
}

/// A tensor whose dimensions have names.
struct Term {
  Tensor x;
  Labels at;
  int find(int64_t label) const {
    for (int d = 0; d < at.size(); ++d)
      if (at[d] == label) return d;
    return -1;
  }
  Set labels() const {
    Set set;
    for (int64_t label : at) set.set(label);
    return set;
  }
};

std::string show_label(int64_t label) {
  return label < kMaxDims ? "..." : std::string(1, char(label));
}

/// Labels every dimension of the operands and finds the sizes: size 1 broadcasts.
class Subscripts {
 public:
  Subscripts(const Expression& e, const TensorList& operands) {
    std::fill_n(owner_, kLabels, -1);
    for (size_t i = 0; i < operands.size(); ++i) {
      const int letters = letters_of(e.inputs[i]), rank = operands[i].dim();
      const bool dots = e.inputs[i].find(kDots) != std::string::npos;
      if (dots ? letters > rank : letters != rank)
        fail("einsum: operand {} is {}, '{}' names {}{} dimensions", i + 1, operands[i].shape(),
             to_text(e.inputs[i]), dots ? "at least " : "", letters);
      if (dots) dots_ = std::max(dots_, rank - letters);
    }
    for (size_t i = 0; i < operands.size(); ++i) name(i, e.inputs[i], operands[i]);
  }
  Labels output(const Expression& e) const {
    std::string term = e.output;
    if (!e.arrow) {
      std::string all;
      for (const std::string& input : e.inputs) all += input;
      term = kDots;
      for (char c = 'A'; c <= 'z'; ++c)
        if (std::ranges::count(all, c) == 1) term += c;
    }
    const int rank = letters_of(term) + (term.find(kDots) != std::string::npos ? dots_ : 0);
    if (rank > kMaxDims)
      fail("einsum: the result has {} dimensions, a tensor has at most {}", rank, kMaxDims);
    Labels labels;
    for (char c : term) {
      for (int d = 0; c == kDots && d < dots_; ++d) labels.push(d);
      if (c != kDots && owner_[int(c)] < 0)
        fail("einsum: '{}' of the output '{}' occurs in no operand", c, to_text(term));
      if (c != kDots) labels.push(c);
    }
    return labels;
  }
  std::vector<Term> terms;

  /// Takes diagonals of repeated names; drops sizes of 1 that broadcast to larger ones.
  void simplify() {
    for (Term& t : terms) {
      for (int d = 0; d < t.at.size(); ++d)
        for (int later = t.at.size() - 1; later > d; --later)
          if (t.at[later] == t.at[d])
            t.x = movedim(diagonal(t.x, 0, d, later), {-1}, {d}), t.at.erase(later);
      for (int d = t.at.size() - 1; d >= 0; --d)
        if (t.x.size(d) == 1 && size_[t.at[d]] != 1) t.x = squeeze(t.x, d), t.at.erase(d);
    }
  }

 private:
  static int letters_of(const std::string& term) {
    return int(std::ranges::count_if(term, [](char c) { return c != kDots; }));
  }
  static std::string to_text(const std::string& term) {
    std::string text;
    for (char c : term) text += c == kDots ? std::string("...") : std::string(1, c);
    return text;
  }
  void name(size_t i, const std::string& term, const Tensor& x) {
    Term t{x, {}};
    const int own_dots = x.dim() - letters_of(term);
    for (char c : term) {
      if (c != kDots) t.at.push(c);
      else
        for (int d = dots_ - own_dots; d < dots_; ++d) t.at.push(d);
    }
    for (int d = 0; d < t.at.size(); ++d) {
      if (const int first = t.find(t.at[d]); first < d && x.size(first) != x.size(d))
        fail("einsum: '{}' is repeated in operand {} {} with sizes {} and {}", show_label(t.at[d]),
             i + 1, x.shape(), x.size(first), x.size(d));
      const size_t label = t.at[d];
      if (owner_[label] >= 0 && size_[label] != 1 && x.size(d) != 1 && size_[label] != x.size(d))
        fail("einsum: '{}' is {} in operand {} {} and {} in operand {} {}", show_label(t.at[d]),
             size_[label], owner_[label] + 1, terms[owner_[label]].x.shape(), x.size(d), i + 1,
             x.shape());
      if (owner_[label] < 0 || size_[label] == 1) owner_[label] = int(i), size_[label] = x.size(d);
    }
    terms.push_back(std::move(t));
  }

  int dots_ = 0;  // the number of dimensions of the longest ellipsis
  int64_t size_[kLabels] = {};
  int owner_[kLabels];  // the operand that defines the size, or -1
};

// ---- one operand, two operands ------------------------------------------------------------------

/// A view of x with its dimensions in this order, and with size 1 for those that it lacks.
Tensor permute_to(const Term& t, const Labels& order) {
  if (t.at == order) return t.x;
  Shape dims, size;
  for (int64_t label : order) {
    const int d = t.find(label);
    if (d >= 0) dims.push(d);
    size.push(d >= 0 ? t.x.size(d) : 1);
  }
  return reshape(permute(t.x, dims), size);
}

/// Sums over the dimensions that are not in `keep`; sums of integers are int64.
Term sum_except(const Term& t, const Set& keep) {
  Shape dims;
  Labels left;
  for (int d = 0; d < t.at.size(); ++d) {
    if (keep.test(t.at[d])) left.push(t.at[d]);
    else dims.push(d);
  }
  if (dims.size() == 0) return t;
  if (t.x.dtype() == Dtype::b8) fail("einsum: bool tensors are not summed; use x:float()");
  return {sum(t.x, dims), left};
}

struct Roles {
  Labels batch, left, right, inner;
  Roles(const Term& a, const Term& b, const Set& keep) {
    for (int64_t label : a.at) {
      if (b.find(label) < 0) left.push(label);
      else (keep.test(label) ? batch : inner).push(label);
    }
    for (int64_t label : b.at)
      if (a.find(label) < 0) right.push(label);
  }
};

int64_t count(const Term& t, const Labels& labels) {
  int64_t n = 1;
  for (int64_t label : labels) n *= t.x.size(t.find(label));
  return n;
}

/// Sorts by the strides of t, so that merging the dimensions needs no copy where that is possible.
void sort_by_stride(const Term& t, Labels& labels) {
  std::ranges::stable_sort(std::span(&labels[0], size_t(labels.size())), std::greater(),
                           [&](int64_t label) { return t.x.stride(t.find(label)); });
}

void sort_by_result(const Labels* result, Labels& labels) {
  if (!result) return;
  Labels sorted;
  for (int64_t label : *result)
    if (std::ranges::find(labels, label) != labels.end()) sorted.push(label);
  labels = sorted;
}

Labels joined(const Labels& a, const Labels& b, const Labels& c) {
  if (a.size() + b.size() + c.size() > kMaxDims)
    fail("einsum: an intermediate product has {} dimensions, a tensor has at most {}",
         a.size() + b.size() + c.size(), kMaxDims);
  return mt::joined(mt::joined(a, b), c);
}

/// Merges the dimensions `rows` into one, and `columns` into another, after those of the batch.
Tensor as_matrices(const Term& t, const Labels& batch, const Labels& rows, const Labels& columns) {
  const Labels order = joined(batch, rows, columns);
  Shape size;
  for (int64_t label : batch) size.push(t.x.size(t.find(label)));
  size.push(count(t, rows)), size.push(count(t, columns));
  const Tensor moved = permute_to(t, order);
  return moved.shape() == size ? moved : reshape(moved, size);
}

/// The product of two operands, summed over the labels that no other operand needs. `result` is the
/// final order, if this is the last product.
Term product(Term a, Term b, const Set& keep, const Labels* result) {
  a = sum_except(a, keep | b.labels());
  b = sum_except(b, keep | a.labels());
  Roles r(a, b, keep);
  sort_by_result(result, r.batch);
  const int64_t m = count(a, r.left), n = count(b, r.right), k = count(a, r.inner);
  // Without a sum, or for a short sum per element, a pass over the elements is cheaper.
  if (r.inner.size() == 0 || (m == 1 && n == 1 && k <= 4 && r.batch.size() > 0)) {
    Labels order = joined(r.batch, r.left, r.right);
    if (result && r.inner.size() == 0) order = *result;
    order = joined(order, r.inner, {});
    Term out = sum_except({permute_to(a, order) * permute_to(b, order), order}, keep);
    out.x = to(out.x, promote(a.x.dtype(), b.x.dtype()));  // the dtype that matmul returns
    return out;
  }
  // The transposed product is contiguous if the result ends with a row's label.
  if (result && result->size() > 0 &&
      std::ranges::find(r.left, result->end()[-1]) != r.left.end()) {
    std::swap(a, b);
    std::swap(r.left, r.right);
  }
  if (r.left.size() > 1) sort_by_stride(a, r.left);
  if (r.right.size() > 1) sort_by_stride(b, r.right);
  sort_by_stride(a.x.numel() >= b.x.numel() ? a : b, r.inner);
  const Tensor y = matmul(as_matrices(a, r.batch, r.left, r.inner),
                          as_matrices(b, r.batch, r.inner, r.right), "einsum");
  const Labels order = joined(r.batch, r.left, r.right);
  Shape size;
  for (int64_t label : order)
    size.push(a.find(label) >= 0 ? a.x.size(a.find(label)) : b.x.size(b.find(label)));
  return {y.shape() == size ? y : reshape(y, size), order};
}

// ---- the order of contraction ----------------------------------------------------------------

constexpr int kExact = 8;  // up to this number of operands all orders are compared

/// The size of the dimension of each label.
struct Sizes {
  explicit Sizes(const std::vector<Term>& terms) {
    for (const Term& t : terms)
      for (int d = 0; d < t.at.size(); ++d) of[t.at[d]] = double(t.x.size(d));
  }
  double volume(const Set& labels) const {
    double v = 1;
    for (size_t i = labels._Find_first(); i < kLabels; i = labels._Find_next(i)) v *= of[i];
    return v;
  }
  double of[kLabels] = {};
};

/// Finds the order with the fewest multiplications, over all subsets of the operands.
class ExactOrder {
 public:
  ExactOrder(const std::vector<Term>& terms, const Set& output, const Labels& result)
      : terms_(terms),
        result_(result),
        sizes_(terms),
        all_((1u << terms.size()) - 1) {
    for (unsigned s = 1; s <= all_; ++s) {
      Set outside = output;
      for (size_t i = 0; i < terms.size(); ++i) {
        if (s >> i & 1) inside_[s] |= terms[i].labels();
        else outside |= terms[i].labels();
      }
      keep_[s] = inside_[s] & outside;
    }
    for (unsigned s = 1; s <= all_; ++s) {
      if ((s & (s - 1)) == 0) continue;
      cost_[s] = 1e300;
      for (unsigned part = (s - 1) & s; part > (s ^ part); part = (part - 1) & s) consider(s, part);
    }
  }
  Term run() const { return run(all_); }

 private:
  Set labels(unsigned s) const { return (s & (s - 1)) == 0 ? inside_[s] : keep_[s]; }
  void consider(unsigned s, unsigned part) {
    const unsigned rest = s ^ part;
    const double parts = cost_[part] + cost_[rest];
    if (parts >= cost_[s]) return;  // the volume, which takes longer, only adds to it
    const Set both = labels(part) | labels(rest);
    const bool fits = int(keep_[s].count()) <= kMaxDims;
    const double cost = parts + sizes_.volume(both) + (fits ? 0 : 1e200);
    if (cost < cost_[s]) cost_[s] = cost, split_[s] = part;
  }
  Term run(unsigned s) const {
    if ((s & (s - 1)) == 0) return terms_[__builtin_ctz(s)];
    return product(run(split_[s]), run(s ^ split_[s]), keep_[s], s == all_ ? &result_ : nullptr);
  }
  const std::vector<Term>& terms_;
  const Labels& result_;
  const Sizes sizes_;
  const unsigned all_;
  double cost_[1u << kExact] = {};
  unsigned split_[1u << kExact] = {};
  Set inside_[1u << kExact], keep_[1u << kExact];
};

/// Contracts pairs, always the one whose product increases memory least, until kExact operands are left.
void contract_greedily(std::vector<Term>& terms, const Set& output) {
  while (terms.size() > kExact) {
    size_t best_i = 0, best_k = 0;
    Set best_keep;
    double least = 1e300;
    for (size_t i = 0; i < terms.size(); ++i)
      for (size_t k = i + 1; k < terms.size(); ++k) {
        Set outside = output;
        for (size_t j = 0; j < terms.size(); ++j)
          if (j != i && j != k) outside |= terms[j].labels();
        const Set keep = (terms[i].labels() | terms[k].labels()) & outside;
        const double growth = Sizes({terms[i], terms[k]}).volume(keep) -
                              double(terms[i].x.numel() + terms[k].x.numel());
        if (growth < least && int(keep.count()) <= kMaxDims)
          least = growth, best_i = i, best_k = k, best_keep = keep;
      }
    if (best_k == 0)
      fail("einsum: every intermediate product has more than {} dimensions", kMaxDims);
    terms[best_i] = product(terms[best_i], terms[best_k], best_keep, nullptr);
    terms.erase(terms.begin() + int64_t(best_k));
  }
}

Tensor evaluate(std::vector<Term> terms, const Labels& result) {
  Set output;
  for (int64_t label : result) output.set(label);
  contract_greedily(terms, output);
  const Term end = terms.size() == 1   ? terms[0]
                   : terms.size() == 2 ? product(terms[0], terms[1], output, &result)
                                       : ExactOrder(terms, output, result).run();
  return permute_to(sum_except(end, output), result);
}

/// Converts all operands to one dtype; throws Error if their devices differ.
void promote_all(const char* name, TensorList& operands) {
  Dtype dtype = operands[0].dtype();
  for (const Tensor& x : operands) {
    check_together(name, operands[0], x);
    dtype = promote(dtype, x.dtype());
  }
  if (dtype == Dtype::b8 && operands.size() > 1)
    fail("{}: bool tensors are not multiplied; use x:float()", name);
  for (Tensor& x : operands) x = to(x, dtype);
}

}  // namespace

Tensor einsum(std::string_view equation, const TensorList& given) {
  const Expression e = read(equation);
  if (given.empty()) fail("einsum: no tensors are given for '{}'", equation);
  if (given.size() != e.inputs.size())
    fail("einsum: '{}' names {} operands, {} tensors are given", equation, e.inputs.size(),
         given.size());
  TensorList operands = given;
  promote_all("einsum", operands);
  Subscripts subscripts(e, operands);
  const Labels result = subscripts.output(e);
  subscripts.simplify();
  return evaluate(subscripts.terms, result);
}

Tensor tensordot(const Tensor& x, const Tensor& y, const Shape& xs, const Shape& ys) {
  if (xs.size() != ys.size())
    fail("tensordot: {} dimensions of the first are named and {} of the second; they form pairs",
         xs.size(), ys.size());
  TensorList operands{x, y};
  promote_all("tensordot", operands);
  std::vector<Term> terms{{operands[0], {}}, {operands[1], {}}};
  int64_t next = 0;
  for (Term& t : terms)
    for (int d = 0; d < t.x.dim(); ++d) t.at.push(next++);
  Set contracted;
  for (int i = 0; i < xs.size(); ++i) {
    const int a = wrap_dim("tensordot", xs[i], x.dim()), b = wrap_dim("tensordot", ys[i], y.dim());
    if (x.dim() == 0 || y.dim() == 0)
      fail("tensordot: {} and {}: a 0-d tensor has no dimension to sum over", x.shape(), y.shape());
    if (contracted.test(a) || terms[1].at[b] < x.dim())
      fail("tensordot: dimension {} of the {} is named twice",
           (contracted.test(size_t(a)) ? a : b) + 1, contracted.test(a) ? "first" : "second");
    if (x.size(a) != y.size(b))
      fail("tensordot: sizes differ: dimension {} of {} and dimension {} of {}", a + 1, x.shape(),
           b + 1, y.shape());
    contracted.set(a);
    terms[1].at[b] = a;
  }
  Labels result;
  if (x.dim() + y.dim() - 2 * xs.size() > kMaxDims)
    fail("tensordot: the result has {} dimensions, a tensor has at most {}",
         x.dim() + y.dim() - 2 * xs.size(), kMaxDims);
  for (const Term& t : terms)
    for (int64_t label : t.at)
      if (!contracted.test(label)) result.push(label);
  return evaluate(terms, result);
}

}  // namespace mt
