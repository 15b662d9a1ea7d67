// csv.h -- comma-separated values (RFC 4180): columns of numbers as tensors, others as text
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

struct CsvOptions {
  bool header = true;  // the first row has the names; without, they are "1", "2", ..
  char delimiter = ',';
  bool quotes = true;                // a quotation mark at its front opens a cell's quotes
  std::vector<std::string> columns;  // which, in this order; without a header the names of all
  std::vector<std::string> text;     // which stay text
};

/// One column: float64 numbers where every cell is a number or empty (NaN), else text. A number with a zero in front
/// (00501) is a code, and so is a whole one that a double would round (beyond 2^53): its column is text.
struct CsvColumn {
  std::string name;
  Tensor numbers;
  std::vector<std::string> text;
};

/// The columns of a text. Cells may be quoted ("" is a quote inside) and hold line breaks; lines end
/// in LF or CRLF, or all in CR, empty ones are left out; a UTF-8 mark at the front is skipped. nan, NA, N/A, null
/// and None in any common case are NaN too. Errors name line and column.
std::vector<CsvColumn> parse_csv(const void* data, size_t size, const CsvOptions&);

/// A number as files write it: decimal, inf or nan, with spaces around; empty and NA are NaN. False
/// where the text is none.
bool parse_number(std::string_view text, double& value);

}  // namespace mt
