// json.h -- JSON values: parsed strictly (RFC 8259), written as text
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
using JsonObject = std::vector<JsonMember>;  // in the order of the text

/// A value: null, a boolean, an integer that fits 64 bits, another number, a string, a list, an object. A longer
/// integer that a double would round is the string of its digits.
struct Json {
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, JsonList, JsonObject> value;
  /// The value as a T, or null.
  template <class T> const T* as() const { return std::get_if<T>(&value); }
};
struct JsonMember {
  std::string key;
  Json value;
};

/// Whether a double is the whole number that the digits (with a sign or without) write, not its neighbour.
bool fits_double(std::string_view digits);

constexpr int kJsonDepth = 1000;  // lists and objects inside one another

/// The value of a text. Throws naming line and column; duplicate keys, invalid UTF-8 and nesting
/// deeper than kJsonDepth are refused.
Json parse_json(std::string_view text);

/// A string in quotation marks. The text must be UTF-8.
std::string json_quoted(std::string_view text);
/// The shortest text that is read as the same number. It must be finite.
std::string json_number(double x);

}  // namespace mt
