// csv.h -- comma-separated values (RFC 4180): columns of numbers as tensors, others as text
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

struct CsvOptions {
  bool header = true;  // the first row has the names; otherwise they are "1", "2", ..
  char delimiter = ',';
  bool quotes = true;                // a quotation mark at the beginning of a cell quotes it
  std::vector<std::string> columns;  // the columns to read, in order; without a header, all names
  std::vector<std::string> text;     // the columns that stay text
};

/// One column: float64 if every cell is a number or empty (NaN), otherwise text. Numbers with a
/// leading zero (00501), and integers that a double would round (above 2^53), are codes: text.
struct CsvColumn {
  std::string name;
  Tensor numbers;
  std::vector<std::string> text;
};

/// Parses the columns of a text. Cells may be quoted ("" is a quote in it) and contain line breaks;
/// lines end with LF or CRLF, or all with CR; empty ones are skipped, and so is a UTF-8 BOM. nan,
/// NA, N/A, null and None in any usual case are NaN too. Errors contain line and column.
std::vector<CsvColumn> parse_csv(const void* data, size_t size, const CsvOptions&);

/// Parses a number: decimal, inf or nan, with spaces around it; empty and NA are NaN. Returns false
/// if the text is not a number.
bool parse_number(std::string_view text, double& value);

}  // namespace mt
