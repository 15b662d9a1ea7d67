// print.cpp -- tensors as text: aligned columns, one number format per tensor, summaries of large
// ones
#include <algorithm>
#include <cmath>

#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

struct Format {
  bool whole = true, scientific = false, boolean = false, integer = false;
  int width = 0, precision = 4;

  std::string text(const Tensor& x, int64_t i) const {
    if (integer) return fmt::format("{}", x.at_integer(i));
    const double v = x.at(i);
    if (boolean) return v != 0 ? "true" : "false";
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    if (scientific) return fmt::format("{:.{}e}", v, precision);
    if (whole) return fmt::format("{:.0f}.", v);
    return fmt::format("{:.{}f}{}", v, precision, precision == 0 ? "." : "");
  }
};

/// The positions of a dimension that are shown, `edge` at each end (if it is below 0 only the
/// first); -1 is the gap.
std::vector<int64_t> shown(int64_t size, int64_t edge) {
  if (edge < 0 && size > 1) return {0, -1};
  const bool gap = size > 2 * edge;
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < (gap ? edge : size); ++i) positions.push_back(i);
  if (!gap) return positions;
  positions.push_back(-1);
  for (int64_t i = size - edge; i < size; ++i) positions.push_back(i);
  return positions;
}

class Printer {
 public:
  explicit Printer(const Tensor& x) : x_(x), options_(print_options()) {
    choose_edges();
    format_.precision = options_.precision;
    format_.boolean = x.dtype() == Dtype::b8;
    format_.integer = !format_.boolean && !is_float(x.dtype());
    if (x.numel() > 0) measure(x);
  }

  std::string print() {
    if (x_.numel() == 0) return "";
    if (x_.dim() == 0) return format_.text(x_, 0) + "\n";
    slices(x_, "");
    return std::move(out_);
  }

 private:
  /// The edgeitems of a large tensor; with many dimensions the first ones get fewer, because the
  /// number of elements shown is the product.
  void choose_edges() {
    const bool whole = x_.numel() <= options_.threshold;
    std::fill(std::begin(edge_), std::end(edge_), whole ? x_.numel() : options_.edgeitems);
    if (whole) return;
    const auto count = [&] {
      double n = 1;
      for (int d = 0; d < x_.dim(); ++d)
        n *= double(std::min(x_.size(d), std::max<int64_t>(2 * edge_[x_.dim() - d], 1)));
      return n;
    };
    const double most = 10 * double(std::max<int64_t>(options_.threshold, 1000));
    for (const int64_t fewer : {1, -1})
      for (int left = x_.dim(); left > 2 && count() > most; --left)
        edge_[left] = std::min(edge_[left], fewer);
  }

  /// Chooses the format and then the width from the elements that are shown.
  void measure(const Tensor& x) {
    double low = INFINITY, high = 0;
    visit(x, [&](const Tensor& row, int64_t i) {
      const double v = row.at(i);
      if (!std::isfinite(v)) return;
      format_.whole &= v == std::floor(v);
      if (v != 0) low = std::min(low, std::fabs(v));
      high = std::max(high, std::fabs(v));
    });
    // PyTorch's rule, except that integral values below 1e8 are always written out.
    format_.scientific = is_float(x.dtype()) && high > 0 &&
                         (high >= 1e8 || (!format_.whole && (low < 1e-4 || high / low > 1000)));
    if (options_.scientific != PrintOptions::Scientific::automatic)
      format_.scientific =
          is_float(x.dtype()) && options_.scientific == PrintOptions::Scientific::always;
    visit(x, [&](const Tensor& row, int64_t i) {
      format_.width = std::max(format_.width, int(format_.text(row, i).size()));
    });
  }
  void visit(const Tensor& x, const auto& body) {
    if (x.dim() == 0) return body(x, 0);
    for (int64_t i : shown(x.size(0), edge_[x.dim()])) {
      if (i < 0) continue;
      if (x.dim() == 1) body(x, i);
      else visit(pick(x, 0, i), body);
    }
  }

  void slices(const Tensor& x, const std::string& where) {
    if (x.dim() <= 2) {
      if (!where.empty()) out_ += fmt::format("({}., .) =\n", where);
      matrix(x);
      return;
    }
    for (int64_t i : shown(x.size(0), edge_[x.dim()])) {
      if (i < 0) out_ += "...\n";
      else slices(pick(x, 0, i), where + fmt::format("{}, ", i + message_base()));
    }
  }

  void matrix(const Tensor& x) {
    if (x.dim() == 1) return void(line(x));
    bool broken = false;
    for (int64_t i : shown(x.size(0), edge_[x.dim()])) {
      if (broken) out_ += "\n";  // the start of the next row
      if (i < 0) out_ += " ...\n";
      else broken = line(pick(x, 0, i));
    }
  }

  /// Prints one row, wrapped at the screen's width; returns whether it was wrapped.
  bool line(const Tensor& x) {
    size_t begin = out_.size();
    bool broken = false;
    for (int64_t i : shown(x.size(0), edge_[x.dim()])) {
      const std::string cell =
          i < 0 ? " ..." : fmt::format("  {:>{}}", format_.text(x, i), format_.width);
      if (out_.size() - begin + cell.size() > size_t(options_.linewidth) && out_.size() > begin) {
        out_ += "\n";
        begin = out_.size();
        broken = true;
      }
      out_ += cell;
    }
    out_ += "\n";
    return broken;
  }

  const Tensor& x_;
  const PrintOptions& options_;
  int64_t edge_[kMaxDims + 1];  // positions shown at each end, by dimensions left
  Format format_;
  std::string out_;
};

}  // namespace

PrintOptions& print_options() {
  static PrintOptions options;
  return options;
}

std::string to_string(const Tensor& x) {
  NoGrad off;
  std::string text = Printer(x).print();
  text += fmt::format("[{} {} {}{}]", x.shape(), x.dtype(), x.device().name,
                      x.impl()->node      ? fmt::format(", from {}", x.impl()->node->type->name)
                      : x.requires_grad() ? ", requires grad"
                                          : "");
  return text;
}

}  // namespace mt
