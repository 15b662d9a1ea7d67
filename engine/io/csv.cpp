// csv.cpp -- comma-separated values (RFC 4180): columns of numbers as tensors, others as text
#include "engine/io/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "engine/core/read_number.h"
#include "engine/io/json.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

/// Converts eight digits to a number; else false (D. Lemire, "Quickly parsing eight digits").
inline bool eight_digits(const char* p, uint64_t& number) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  constexpr uint64_t kHigh = 0xf0f0f0f0f0f0f0f0;
  if (((v & kHigh) | ((v + 0x0606060606060606) & kHigh) >> 4) != 0x3333333333333333) return false;
  v = (v - 0x3030303030303030) * 10 + ((v - 0x3030303030303030) >> 8);
  constexpr uint64_t kMask = 0x000000ff000000ff;
  number = ((v & kMask) * 0x000f424000000064 + (v >> 16 & kMask) * 0x0000271000000001) >> 32;
  return true;
}

/// Computes mantissa / 10^places, correctly rounded, or returns false. Exact 64-bit numbers are
/// divided as x86 long doubles: they have 11 more bits than a double, which must not be close to
/// one half, nor all be 0, which is always the case if an emulator's long double is a double.
inline bool scale(uint64_t mantissa, int64_t places, double& value) {
  static constexpr long double kPower[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                           1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                           1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L};
  if (mantissa >> 53 == 0) return value = double(mantissa) / double(kPower[places]), true;
  if constexpr (std::numeric_limits<long double>::digits != 64) return false;
  const long double quotient = static_cast<long double>(mantissa) / kPower[places];
  uint64_t bits;
  std::memcpy(&bits, &quotient, 8);
  bits &= 0x7ff;
  if (bits == 0 || bits - 0x3ff <= 2) return false;
  return value = double(quotient), true;
}

/// What ends a cell: a delimiter, the end of its line, or the end of the text.
enum class End { cell, line, text };

/// Iterates over the cells of a text. The result of next() is a part of the text, or, if it
/// contains doubled quotes, of a buffer that is valid until the next call.
class Cells {
 public:
  Cells(std::string_view text, const CsvOptions& options, size_t line = 1)
      : at_(text.data()),
        end_(text.data() + text.size()),
        delimiter_(options.delimiter),
        quotes_(options.quotes),
        line_(line) {}

  bool done() const { return at_ == end_; }
  std::string_view rest() const { return {at_, size_t(end_ - at_)}; }
  bool may_be_quoted() const { return quotes_ && rest().find('"') != std::string_view::npos; }
  size_t line() const { return line_; }

  void skip_empty_lines() {
    while (at_ < end_ && (*at_ == '\n' || (*at_ == '\r' && (at_ + 1 == end_ || at_[1] == '\n')))) {
      at_ += *at_ == '\n' || at_ + 1 == end_ ? 1 : 2;
      next_line();
    }
  }
  End next(std::string_view& cell) {
    if (quotes_ && at_ < end_ && *at_ == '"') return quoted(cell);
    const char* const first = at_;
    while (at_ < end_ && *at_ != delimiter_ && *at_ != '\n') ++at_;
    const char* last = at_;
    if (last > first && last[-1] == '\r' && (at_ == end_ || *at_ == '\n')) --last;
    cell = {first, size_t(last - first)};
    return step();
  }

  /// The same for a cell that is a plain number, "-12.5", with at most 19 digits, and certainly not
  /// a code; otherwise returns false and reads nothing.
  bool number(double& value, End& end) {
    const char* const first = at_;
    const bool minus = at_ < end_ && *at_ == '-';
    at_ += minus;
    uint64_t mantissa = 0;
    const bool zero = end_ - at_ > 1 && *at_ == '0' && unsigned(at_[1] - '0') <= 9;
    const int64_t whole = digits(mantissa);
    const int64_t before = mantissa ? whole : 0;  // without leading zeros
    const bool point = at_ < end_ && *at_ == '.';
    at_ += point;
    const int64_t places = point ? digits(mantissa) : 0;
    if (end_ - at_ > 1 && *at_ == '\r' && at_[1] == '\n') ++at_;
    if (zero || (!point && mantissa > uint64_t(1) << 53) || whole + places == 0 ||
        before + places > 19 || whole > 19 || (at_ < end_ && *at_ != delimiter_ && *at_ != '\n') ||
        !scale(mantissa, places, value))
      return at_ = first, false;
    if (minus) value = -value;
    return end = step(), true;
  }

 private:
  /// Reads digits into a number, which overflows with more than 19 digits; returns their count.
  int64_t digits(uint64_t& number) {
    const char* const first = at_;
    uint64_t some;
    for (; end_ - at_ >= 8 && eight_digits(at_, some); at_ += 8) number = 100000000 * number + some;
    for (; at_ < end_ && unsigned(*at_ - '0') <= 9; ++at_)
      number = 10 * number + uint64_t(*at_ - '0');
    return at_ - first;
  }
  End step() {
    if (at_ == end_) return End::text;
    ++column_;
    if (*at_++ == delimiter_) return End::cell;
    next_line();
    return at_ == end_ ? End::text : End::line;
  }
  void next_line() { ++line_, column_ = 1; }
  End quoted(std::string_view& cell) {
    const size_t line = line_;
    const char* first = ++at_;
    buffer_.clear();
    bool doubled = false;
    for (;; ++at_) {
      while (at_ < end_ && *at_ != '"') line_ += *at_++ == '\n';
      if (at_ == end_)
        fail("line {}, column {}: the quote that begins the cell is not closed", line, column_);
      if (at_ + 1 == end_ || at_[1] != '"') break;
      doubled = true;
      buffer_.append(first, ++at_);
      first = at_ + 1;
    }
    if (doubled) cell = buffer_.append(first, at_);
    else cell = {first, size_t(at_ - first)};
    ++at_;
    if (at_ < end_ && *at_ == '\r' && (at_ + 1 == end_ || at_[1] == '\n')) ++at_;
    if (at_ < end_ && *at_ != delimiter_ && *at_ != '\n')
      fail("line {}, column {}: text follows the closing quote", line_, column_);
    return step();
  }

  const char *at_, *end_;
  char delimiter_;
  bool quotes_;
  size_t line_, column_ = 1;
  std::string buffer_;
};

using Names = std::vector<std::string>;

Names read_row(Cells& cells) {
  Names row;
  std::string_view cell;
  End end;
  do {
    end = cells.next(cell);
    row.emplace_back(cell);
  } while (end == End::cell);
  return row;
}

/// Reads all rows and returns their number: read(cells, k, row) reads a cell of wanted column k.
size_t each_cell(Cells cells, const std::vector<int>& place, const auto& read) {
  std::string_view skipped;
  for (size_t row = 0;; ++row) {
    cells.skip_empty_lines();
    if (cells.done()) return row;
    if (row % 4096 == 0) check_interrupt();
    const size_t line = cells.line();
    size_t column = 0;
    for (End end = End::cell; end == End::cell; ++column)
      end = column < place.size() && place[column] >= 0 ? read(cells, place[column], row)
                                                        : cells.next(skipped);
    if (column != place.size())
      fail("line {}: it ends at column {}, the first line at column {}", line, column,
           place.size());
  }
}

/// For each column of the file its index among the wanted ones, or -1; names must be unique.
std::vector<int> choose(const Names& names, const Names& wanted) {
  std::vector<int> place(names.size(), -1);
  std::unordered_map<std::string_view, size_t> known;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!known.try_emplace(names[i], i).second)
      fail("line 1, column {}: duplicate column name '{}'", i + 1, names[i]);
    if (wanted.empty()) place[i] = int(i);
  }
  for (size_t k = 0; k < wanted.size(); ++k) {
    const auto found = known.find(wanted[k]);
    if (found == known.end())
      fail("it has no column '{}'; its columns are {}", wanted[k], fmt::join(names, ", "));
    if (place[found->second] >= 0) fail("the column '{}' was requested twice", wanted[k]);
    place[found->second] = int(k);
  }
  return place;
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

/// Whether a number is a code whose digits must be kept: 00501, 9007199254740993.
bool is_code(std::string_view s) {
  s = trimmed(s);
  if (!s.empty() && (s.front() == '-' || s.front() == '+')) s.remove_prefix(1);
  if (s.size() > 1 && s[0] == '0' && unsigned(s[1] - '0') <= 9) return true;
  return s.find_first_not_of("0123456789") == s.npos && !fits_double(s);
}

/// A block of whole lines that is parsed at once, and its results.
struct Piece {
  std::string_view text;
  size_t line = 1, row = 0;  // its first line of the text, its first row of the columns
  size_t most = 0, rows = 0;
  std::vector<char> numeric;
  std::string error;
};

/// Counts line breaks, and lines that are not empty.
void count_lines(Piece& piece, size_t& breaks) {
  const std::string_view text = piece.text;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    breaks += end < text.size();
    piece.most += end - at > (end > at && text[end - 1] == '\r');
  }
}

/// Splits a text without quotes into pieces of about 1 MiB.
std::vector<Piece> split_pieces(const Cells& cells, const std::vector<int>& place) {
  constexpr size_t kSize = 1 << 20;
  std::string_view text = cells.rest();
  const bool quotes = cells.may_be_quoted();
  std::vector<Piece> pieces;
  size_t line = cells.line(), row = 0;
  while (!text.empty()) {
    const size_t end = quotes || text.size() <= kSize ? text.npos : text.find('\n', kSize);
    Piece& piece = pieces.emplace_back();
    piece.text = text.substr(0, end == text.npos ? end : end + 1);
    piece.line = line, piece.row = row;
    count_lines(piece, line);
    row += piece.most;
    text.remove_prefix(piece.text.size());
  }
  if (row <= cells.rest().size() / place.size() + 1) return pieces;
  // Lines are too short for so many columns: a row is wrong, or quotes contain line breaks.
  pieces.resize(1);
  pieces[0].text = cells.rest();
  std::string_view skipped;
  pieces[0].most =
      each_cell(cells, place, [&](Cells& at, size_t, size_t) { return at.next(skipped); });
  return pieces;
}

/// Parses the numbers of a piece; a column that contains another cell is left unfinished.
void read_numbers(Piece& piece, const std::vector<int>& place, const CsvOptions& options,
                  const std::vector<double*>& numbers, const std::vector<char>& may_be_numeric) {
  piece.numeric = may_be_numeric;
  std::string_view cell;
  const Cells cells(piece.text, options, piece.line);
  piece.rows = each_cell(cells, place, [&](Cells& at, size_t k, size_t row) {
    End end;
    double value;
    if (!piece.numeric[k]) return at.next(cell);
    if (row >= piece.most) [[unlikely]]
      fail("more rows than lines");
    if (!at.number(value, end)) {
      end = at.next(cell);
      if (is_code(cell) || !parse_number(cell, value)) return piece.numeric[k] = false, end;
    }
    return numbers[k][piece.row + row] = value, end;
  });
}

/// The numeric columns; a column with a non-numeric cell has no data.
TensorList read_columns(std::vector<Piece>& pieces, const std::vector<int>& place,
                        const CsvOptions& options, const std::vector<char>& may_be_numeric) {
  const size_t n = may_be_numeric.size();
  const size_t most = pieces.empty() ? 0 : pieces.back().row + pieces.back().most;
  TensorList columns(n);
  std::vector<double*> numbers(n);
  for (size_t k = 0; k < n; ++k) {
    columns[k] = empty({int64_t(most)}, Dtype::f64);
    numbers[k] = columns[k].data_as<double>();
  }
  parallel(int64_t(pieces.size()), true, [&](int64_t i) {
    try {
      read_numbers(pieces[i], place, options, numbers, may_be_numeric);
    } catch (const std::exception& e) { pieces[i].error = e.what(); }
  });
  check_interrupt();
  size_t rows = 0;
  for (const Piece& p : pieces) {
    if (!p.error.empty()) throw Error(p.error);
    for (size_t k = 0; k < n; ++k) {
      if (!p.numeric[k]) numbers[k] = nullptr;
      if (numbers[k] && rows != p.row) std::copy_n(numbers[k] + p.row, p.rows, numbers[k] + rows);
    }
    rows += p.rows;
  }
  for (size_t k = 0; k < n; ++k) {
    if (!numbers[k]) columns[k].reset();
    else if (rows != most) {
      const Tensor shorter = empty({int64_t(rows)}, Dtype::f64);
      std::copy_n(numbers[k], rows, shorter.data_as<double>());
      columns[k] = shorter;
    }
  }
  return columns;
}

}  // namespace

bool parse_number(std::string_view s, double& value) {
  s = trimmed(s);
  value = std::numeric_limits<double>::quiet_NaN();
  if (s.empty()) return true;
  if (s.front() == '+' && s.size() > 1 && s[1] != '-') s.remove_prefix(1);
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (end != s.data() + s.size() || s.back() == ')') {
    static constexpr std::string_view kNone[] = {"NA",   "N/A",  "n/a",  "#N/A",
                                                 "null", "NULL", "None", "<NA>"};
    value = std::numeric_limits<double>::quiet_NaN();
    return std::find(std::begin(kNone), std::end(kNone), s) != std::end(kNone);
  }
  if (error == std::errc::result_out_of_range)  // from_chars does not set the value then
    value = read_number(std::string(s).c_str());
  else if (error != std::errc()) return false;
  return true;
}

std::vector<CsvColumn> parse_csv(std::string_view text, const CsvOptions& options) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    fail("it is UTF-16; save it as UTF-8");
  std::string lines;
  if (text.find('\n') == text.npos && text.find('\r') != text.npos) {
    lines = text;
    std::ranges::replace(lines, '\r', '\n');
    text = lines;
  }
  Cells cells(text, options);
  cells.skip_empty_lines();
  if (cells.done()) fail("it has no {}", options.header ? "header" : "rows");
  const Cells before = cells;
  Names names = read_row(cells);
  Names wanted = options.columns;
  if (!options.header) {
    cells = before;
    if (!wanted.empty() && wanted.size() != names.size())
      fail("it has {} columns, {} names were given", names.size(), wanted.size());
    for (size_t i = 0; i < names.size(); ++i)
      names[i] = wanted.empty() ? std::to_string(i + 1) : wanted[i];
    wanted.clear();
  }
  const std::vector<int> place = choose(names, wanted);
  const size_t n = wanted.empty() ? names.size() : wanted.size();

  // Numeric columns are parsed first. A column that is not numeric is read again as text.
  std::vector<CsvColumn> columns(n);
  std::vector<Piece> pieces = split_pieces(cells, place);
  for (size_t i = 0; i < names.size(); ++i)
    if (place[i] >= 0) columns[place[i]].name = names[i];
  std::vector<char> may_be_numeric(n, true);
  for (const std::string& name : options.text) {
    const auto at = std::ranges::find(columns, name, &CsvColumn::name);
    if (at == columns.end())
      fail("it has no column '{}' to be text; its columns are {}", name, fmt::join(names, ", "));
    may_be_numeric[at - columns.begin()] = false;
  }
  TensorList numbers = read_columns(pieces, place, options, may_be_numeric);
  bool all = true;
  for (size_t k = 0; k < n; ++k) {
    columns[k].numbers = numbers[k];
    all = all && numbers[k].defined();
  }
  if (all) return columns;
  std::string_view cell;
  each_cell(cells, place, [&](Cells& at, size_t k, size_t) {
    const End end = at.next(cell);
    if (!numbers[k].defined()) columns[k].text.emplace_back(cell);
    return end;
  });
  return columns;
}

}  // namespace mt
