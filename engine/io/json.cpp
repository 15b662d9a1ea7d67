// json.cpp -- JSON values: strict parser (RFC 8259) and writer
#include "engine/io/json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "engine/io/bytes.h"

namespace mt {
namespace {

/// Builds the value from the events of nlohmann-json, without recursion.
using Events = nlohmann::json_sax<nlohmann::json>;
class Builder : public Events {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool x) override { return add(x); }
  bool number_integer(int64_t x) override { return add(x); }
  bool number_unsigned(uint64_t x) override {
    if (x <= uint64_t(INT64_MAX)) return add(int64_t(x));
    return number_float(double(x), std::to_string(x));
  }
  bool number_float(double x, const std::string& text) override {
    if (text.find_first_not_of("-0123456789") == text.npos && !fits_double(text)) return add(text);
    return add(x);
  }
  bool string(std::string& text) override { return add(std::move(text)); }
  bool binary(Events::binary_t&) override { return false; }  // JSON does not have it
  bool start_object(size_t) override {
    open<JsonObject>();
    keys_.emplace_back();
    return true;
  }
  bool key(std::string& text) override {
    if (!keys_.back().insert(text).second) fail("the key '{}' is repeated", printable(text));
    std::get<JsonObject>(open_.back()->value).emplace_back().key = std::move(text);
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return close();
  }
  bool start_array(size_t) override { return open<JsonList>(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& e) override {
    std::string text = e.what();  // "[json.exception.parse_error.101] parse error at line 1, .."
    if (const size_t at = text.find("line "); at != std::string::npos) text.erase(0, at);
    else if (const size_t end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
    fail("{}", printable(text, 300));
  }

  Json root;

 private:
  /// Where the next value is stored; it is null initially.
  Json* next() {
    if (open_.empty()) return &root;
    if (JsonList* list = std::get_if<JsonList>(&open_.back()->value)) return &list->emplace_back();
    return &std::get<JsonObject>(open_.back()->value).back().value;
  }
  template <class T> bool add(T x) {
    next()->value.emplace<T>(std::move(x));
    return true;
  }
  // An open value is the last one of its list, and the list does not grow while it is open.
  template <class T> bool open() {
    if (open_.size() == kJsonDepth) fail("lists and objects are nested deeper than {}", kJsonDepth);
    Json* const json = next();
    json->value.emplace<T>();
    open_.push_back(json);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

Json parse_json(std::string_view text) {
  Builder builder;
  nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder);
  if (const size_t at = text.find('\0'); at != text.npos)  // the parser would take it as the end
    fail("byte {} is 0; text follows the value, or the file was not written to its end", at + 1);
  return std::move(builder.root);
}

std::string json_quoted(std::string_view text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

bool fits_double(std::string_view digits) {
  const bool minus = digits.starts_with('-');
  digits.remove_prefix(minus || digits.starts_with('+'));
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.size() < 16) return true;
  double x = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), x);
  return fmt::format("{:.0f}", x) == digits;
}

std::string json_number(double x) {
  if (std::fabs(x) < 0x1p53 && x == std::floor(x) && !(x == 0 && std::signbit(x)))
    return fmt::format("{}", int64_t(x));
  return x == 0 ? "-0.0" : fmt::format("{}", x);
}

}  // namespace mt
