// signature.cpp -- parses signatures, once each
#include "bindings/core/signature.h"

#include <cctype>
#include <cmath>

#include "bindings/core/lua.h"
#include "engine/core/read_number.h"

namespace mt::lua {
namespace {

/// The words for a kind: in signatures, and in "x must be ..".
const struct {
  unsigned kind;
  const char *name, *expected;
} kKinds[] = {{kind::boolean, "bool", "true or false"},
              {kind::integer, "int", "a whole number"},
              {kind::number, "number", "a number"},
              {kind::string, "string", "a string"},
              {kind::text, "text", "a string or a number"},
              {kind::tensor, "tensor", "a tensor"},
              {kind::function, "function", "a function"},
              {kind::dtype, "dtype", "a dtype"},
              {kind::device, "device", "'cpu', 'cuda' or 'cuda:0'"},
              {kind::generator, "generator", "a generator, mt.Generator(seed)"},
              {kind::integers, "ints", "a list of whole numbers"},
              {kind::numbers, "numbers", "a list of numbers"},
              {kind::strings, "strings", "a list of strings"},
              {kind::tensors, "tensors", "a list of tensors"},
              {kind::list, "list", "a list"},
              {kind::table, "table", "a table"},
              {kind::any, "any", "any value"}};

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(' ');
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(' ') - first + 1);
}

/// The position of the default: a '=' that is not part of a comparison.
size_t default_at(const std::string& item) {
  for (size_t i = 1; i < item.size(); ++i)
    if (item[i] == '=' && item[i - 1] != '<' && item[i - 1] != '>') return i;
  return std::string::npos;
}

/// Parses "number >= 0 <= 1", "'mean'|'sum'", "tensor|number"
void read_type(Param& p, std::string text, const std::string& signature) {
  p.stated = true;
  const size_t range = text.find_first_of("<>");
  std::string bounds = range == std::string::npos ? "" : text.substr(range);
  text = trimmed(text.substr(0, range)) + "|";
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('|', at);
    const std::string word = text.substr(at, end - at);
    if (word[0] == '\'') {
      p.choices.push_back(word.substr(1, word.size() - 2));
      continue;
    }
    const bool finite = word == "finite";
    if (finite) p.above = p.below = true;
    bool known = false;
    for (const auto& k : kKinds)
      if ((finite ? "number" : word) == k.name) p.kinds |= k.kind, known = true;
    if (!known) fail("declare: '{}' is not a type, in {}", word, signature);
  }
  while (!bounds.empty()) {
    const bool low = bounds[0] == '>', included = bounds[1] == '=';
    char* end;
    (low ? p.low : p.high) = read_number(bounds.c_str() + 1 + included, &end);
    (low ? p.above : p.below) = !included;
    bounds = trimmed(end);
    if (!bounds.empty() && bounds[0] != '<' && bounds[0] != '>')
      fail("declare: '{}' is not a range, in {}", bounds, signature);
  }
}

/// Converts the default to the forms that accessors need.
void read_default(Param& p, const std::string& signature) {
  const std::string& text = p.default_text;
  const bool counted = p.kinds & kind::position;
  const auto number = [&](const char* from, char** end) {
    const double x = read_number(from, end);
    p.shape.push(counted ? int64_t(x) - (x > 0) : std::isfinite(x) ? int64_t(x) : 0);
    return x;
  };
  char* end = nullptr;
  if (text[0] == '\'') {
    p.text = text.substr(1, text.size() - 2);
    if (p.kinds & kind::dtype) p.dtype = dtype_named(p.text);
    for (const std::string& choice : p.choices)
      if (choice == p.text) return;
      else ++p.choice;
    if (!p.choices.empty()) fail("declare: '{}' cannot be {}, in {}", p.name, text, signature);
  } else if (text[0] == '{') {
    for (const char* from = text.c_str() + 1; *from && *from != '}'; from = *end ? end + 1 : end)
      number(from, &end);
  } else if (text == "true") {
    p.boolean = true;
  } else if (text != "false") {
    p.number = number(text.c_str(), &end);
  }
}

/// Parses "reduction: 'mean'|'sum' = 'mean'"; returns the part that is shown: "reduction='mean'".
std::string read_param(Param& p, std::string item, const std::string& signature) {
  if (const size_t equals = default_at(item); equals != std::string::npos) {
    p.optional = true;
    p.default_text = trimmed(item.substr(equals + 1));
    p.has_default = p.default_text != "nil";
    item = trimmed(item.substr(0, equals));
  }
  size_t n = 0;
  while (n < item.size() && (std::isalnum(item[n]) || std::string("_[].").find(item[n]) < 4)) ++n;
  if (n < item.size() && item[n] == ':') {
    read_type(p, trimmed(item.substr(n + 1)), signature);
    item.resize(n);
  }
  const std::string shown = p.optional ? item + "=" + p.default_text : item;
  if (item[0] == '[') {
    p.list = true;
    item = item.substr(1, item.size() - 2);
    if (item.size() > 2 && item.substr(item.size() - 2) == "..")
      p.collect = true, item.resize(item.size() - 2);
  }
  p.name = item;
  return shown;
}

/// Takes the type of a parameter from C++, unless the signature states one.
void take_type(Param& p, const Type& type, const std::string& signature) {
  if (p.optional && !p.has_default && !type.takes_nil)
    fail("declare: '{}' cannot be nil, in {}", p.name, signature);
  if (p.stated) {
    p.kinds |= type.kinds & kind::position;
    return;
  }
  p.kinds = type.kinds;
  for (int i = 0; i < type.choice_count; ++i) p.choices.push_back(type.choices[i]);
}

std::string range_text(const Param& p) {
  const bool low = p.low > -INFINITY, high = p.high < INFINITY;
  std::string text;
  if (low) text = fmt::format(" {} {}", p.above ? "above" : "from", p.low);
  if (high) {
    const char* word = p.below ? "below" : low && !p.above ? "to" : "up to";
    text += fmt::format("{} {} {}", low && (p.above || p.below) ? " and" : "", word, p.high);
  }
  return text;
}

}  // namespace

std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

std::string Param::expected() const {
  std::vector<std::string> words;
  for (const std::string& choice : choices) words.push_back("'" + choice + "'");
  for (const auto& k : kKinds) {
    if (!(kinds & k.kind)) continue;
    const bool finite = k.kind == kind::number && below && high == INFINITY;
    const bool ranged = k.kind == kind::number || k.kind == kind::integer;
    words.push_back((finite ? "a finite number" : k.expected) + (ranged ? range_text(*this) : ""));
  }
  return words.empty() ? "any value" : one_of(words);
}

std::string type_text(const Param& p) {
  std::string text;
  for (const std::string& choice : p.choices)
    text += fmt::format("{}'{}'", text.empty() ? "" : "|", choice);
  for (const auto& k : kKinds)
    if (p.kinds & k.kind) text += (text.empty() ? "" : "|") + std::string(k.name);
  return text.empty() ? "any" : text;
}

std::string limits(const Signature& s) {
  std::string text;
  for (const Param& p : s.params)
    if ((!p.choices.empty() && p.kinds == kind::any) || p.low > -INFINITY || p.high < INFINITY)
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", p.name, p.expected());
  return text;
}

Signature parse_signature(const std::string& text, const Type* types, int type_count) {
  Signature s;
  const size_t open = text.find('(');
  s.name = text.substr(0, open);
  s.text = s.name + "(";
  const std::string params = text.substr(open + 1, text.rfind(')') - open - 1);
  for (size_t at = 0; at < params.size();) {
    size_t end = at;
    for (int depth = 0; end < params.size() && (depth > 0 || params[end] != ','); ++end)
      depth += params[end] == '{' || params[end] == '['   ? 1
               : params[end] == '}' || params[end] == ']' ? -1
                                                          : 0;
    std::string item = trimmed(params.substr(at, end - at));
    at = end + 1;
    if (item == "..") {
      s.open = true;
    } else if (item == "{out=}") {
      s.out = true;
    } else {
      Param p;
      item = read_param(p, item, text);
      const int i = int(s.params.size());
      if (i < type_count) take_type(p, types[i], text);
      if (p.has_default) read_default(p, text);
      s.collects |= p.collect, s.stated |= p.stated;
      if (!p.optional) s.required = i + 1;
      s.params.push_back(std::move(p));
    }
    s.text += (s.text.back() == '(' ? "" : ", ") + item;
  }
  s.text += ")";
  if (types && int(s.params.size()) != type_count)
    fail("declare: the function takes {} arguments, not {}", type_count, text);
  return s;
}

std::string name_of(const Entry& e) {
  const std::string_view text = e.signature;
  return std::string(text.substr(0, text.find('(')));
}

Entry::~Entry() { delete parsed.load(); }

const Signature& parse_once(const Entry& e) {
  const Signature *known = nullptr,
                  *fresh =
                      new Signature(parse_signature(e.signature, e.body.types, e.body.type_count));
  if (e.parsed.compare_exchange_strong(known, fresh)) return *fresh;
  delete fresh;
  return *known;
}

}  // namespace mt::lua
