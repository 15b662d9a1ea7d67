// json.h -- JSON values: strict parser (RFC 8259) and writer
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mt {

struct Json;
struct JsonMember;
using JsonList = std::vector<Json>;
using JsonObject = std::vector<JsonMember>;  // in the order of the file

/// A value: null, a boolean, an integer that fits 64 bits, another number, a string, a list, or an
/// object. A longer integer that a double would round is stored as the string of its digits.
struct Json {
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, JsonList, JsonObject> value;
  /// The value as a T, or null.
  template <class T> const T* as() const { return std::get_if<T>(&value); }
};
struct JsonMember {
  std::string key;
  Json value;
};

/// Whether a double represents exactly the integer that the digits (with or without a sign) denote.
bool fits_double(std::string_view digits);

constexpr int kJsonDepth = 1000;  // the maximum nesting of lists and objects

/// Parses a text. Throws Error with line and column, also for duplicate keys, invalid UTF-8 and
/// nesting deeper than kJsonDepth.
Json parse_json(std::string_view text);

/// A JSON string with quotation marks. The text must be UTF-8.
std::string json_quoted(std::string_view text);
/// The shortest text that is parsed as the same number, which must be finite.
std::string json_number(double x);

}  // namespace mt
