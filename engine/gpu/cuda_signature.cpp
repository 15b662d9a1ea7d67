// cuda_signature.cpp -- parses the names and parameters of kernels in CUDA C
#include "engine/gpu/cuda_signature.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>

namespace mt {
namespace {

using Tokens = std::vector<std::string_view>;

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}
bool in_word(char c) { return starts_word(c) || std::isdigit(static_cast<unsigned char>(c)); }
bool is_word(std::string_view t) { return !t.empty() && starts_word(t[0]); }
bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

/// Joins lines that end in a backslash with the next line.
std::string splice(std::string_view text) {
  std::string joined;
  joined.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      size_t end = i + 1;
      while (end < text.size() && (text[end] == ' ' || text[end] == '\t' || text[end] == '\r'))
        ++end;
      if (end < text.size() && text[end] == '\n') {
        i = end;
        continue;
      }
    }
    joined.push_back(text[i]);
  }
  return joined;
}

/// Splits a text into words, numbers and single characters; comments are removed, a string becomes
/// `"`. Preprocessor directives are kept separately.
struct Lexer {
  std::string_view text;
  size_t at = 0;
  Tokens tokens, directives;

  explicit Lexer(std::string_view spliced) : text(spliced) {
    bool line_begins = true;
    while (at < text.size()) {
      const char c = text[at];
      if (c == '\n') line_begins = true, ++at;
      else if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') ++at;
      else if (comment()) continue;
      else if (line_begins && (c == '#' || text.substr(at, 2) == "%:")) directive();
      else line_begins = false, token();
    }
  }

  bool comment() {
    const std::string_view two = text.substr(at, 2);
    if (two != "//" && two != "/*") return false;
    const size_t end = two == "//" ? text.find('\n', at) : text.find("*/", at + 2);
    at = end == text.npos ? text.size() : two == "//" ? end : end + 2;
    return true;
  }
  void directive() {
    const size_t from = at;
    while (at < text.size() && text[at] != '\n')
      if (text[at] == '"' || text[at] == '\'') quoted(text[at], false);
      else if (!comment()) ++at;
    directives.push_back(text.substr(from, at - from));
  }
  /// Skips a string, which ends at the latest with the line.
  void quoted(char mark, bool keep) {
    ++at;
    while (at < text.size() && text[at] != mark && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
    if (at < text.size() && text[at] == mark) ++at;
    at = std::min(at, text.size());
    if (keep) tokens.push_back("\"");
  }
  void raw_string() {  // starts at the quote of R"mark( .. )mark"
    const size_t open = text.find('(', at);
    if (open == text.npos || open - at > 17) return quoted('"', true);
    const std::string close = ")" + std::string(text.substr(at + 1, open - at - 1)) + "\"";
    const size_t end = text.find(close, open);
    at = end == text.npos ? text.size() : end + close.size();
    tokens.push_back("\"");
  }
  void token() {
    const char c = text[at];
    if (c == '"' || c == '\'') return quoted(c, true);
    size_t end = at + 1;
    if (in_word(c)) {  // a digit separator is part of a number
      const bool number = !starts_word(c);
      while (end < text.size() &&
             (in_word(text[end]) ||
              (number && text[end] == '\'' && end + 1 < text.size() && in_word(text[end + 1]))))
        ++end;
    }
    const std::string_view word = text.substr(at, end - at);
    at = end;
    const bool raw = is_one_of(word, {"R", "LR", "uR", "UR", "u8R"});
    if (raw && at < text.size() && text[at] == '"') return raw_string();
    tokens.push_back(word);
  }
};

// ---- brackets ------------------------------------------------------------------------------------

/// The index after the bracket that closes the one at `i`, or the end. `<` counts if it is at `i`.
size_t after_bracket(const Tokens& t, size_t i, size_t end) {
  const bool angle = t[i] == "<";
  int depth = 0;
  for (; i < end; ++i) {
    if (t[i] == "(" || t[i] == "[" || t[i] == "{" || (angle && t[i] == "<")) ++depth;
    if (t[i] == ")" || t[i] == "]" || t[i] == "}" || (angle && t[i] == ">")) --depth;
    if (depth == 0) return i + 1;
    if (depth < 0) return end;
  }
  return end;
}

/// The index of the parenthesis that the one at `i` closes; npos: there is none.
size_t opening_of(const Tokens& t, size_t i) {
  int depth = 0;
  for (++i; i > 0; --i) {
    depth += t[i - 1] == ")" ? 1 : t[i - 1] == "(" ? -1 : 0;
    if (depth == 0) return i - 1;
  }
  return std::string_view::npos;
}

// ---- types ---------------------------------------------------------------------------------------

struct Scalar {
  CudaType::Kind kind;
  int bytes;
  bool is_signed;
  const char* dtype;  // the dtype of tensors for a pointer to it; null: there is none
  int lanes = 1;
};

/// A type from its words without const: "unsigned long long".
bool scalar_named(const Tokens& words, Scalar& s) {
  using enum CudaType::Kind;
  static const struct {
    const char* name;
    Scalar scalar;
  } known[] = {{"bool", {boolean, 1, false, "bool"}},
               {"float", {floating, 4, true, "float32"}},
               {"double", {floating, 8, true, "float64"}},
               {"__half", {floating, 2, true, "float16"}},
               {"half", {floating, 2, true, "float16"}},
               {"__nv_bfloat16", {floating, 2, true, "bfloat16"}},
               {"float2", {unknown, 8, true, "float32", 2}},
               {"float4", {unknown, 16, true, "float32", 4}},
               {"double2", {unknown, 16, true, "float64", 2}},
               {"int2", {unknown, 8, true, "int32", 2}},
               {"int4", {unknown, 16, true, "int32", 4}},
               {"uchar4", {unknown, 4, true, "uint8", 4}},
               {"int8_t", {integer, 1, true, "int8"}},
               {"uint8_t", {integer, 1, false, "uint8"}},
               {"int16_t", {integer, 2, true, "int16"}},
               {"uint16_t", {integer, 2, false, nullptr}},
               {"int32_t", {integer, 4, true, "int32"}},
               {"uint32_t", {integer, 4, false, "int32"}},
               {"int64_t", {integer, 8, true, "int64"}},
               {"uint64_t", {integer, 8, false, "int64"}},
               {"size_t", {integer, 8, false, "int64"}}};
  if (words.size() == 1)
    for (const auto& k : known)
      if (words[0] == k.name) return s = k.scalar, true;
  const auto n = [&](std::string_view w) { return std::ranges::count(words, w); };
  const auto longs = n("long"), shorts = n("short"), chars = n("char"), ints = n("int");
  const bool is_unsigned = n("unsigned") > 0;
  const auto known_words = longs + shorts + chars + ints + n("unsigned") + n("signed");
  if (words.empty() || size_t(known_words) != words.size() || longs > 2 ||
      (chars && (longs || shorts || ints)))
    return false;
  const int bytes = chars ? 1 : shorts ? 2 : longs ? 8 : 4;  // as on Linux
  const char* dtype = bytes == 8 ? "int64" : bytes == 4 ? "int32" : nullptr;
  if (chars) dtype = is_unsigned ? "uint8" : "int8";
  if (shorts && !is_unsigned) dtype = "int16";
  s = {integer, bytes, !is_unsigned, dtype};
  return true;
}

bool is_type_word(std::string_view w) {
  return is_one_of(w, {"void", "bool", "char", "short", "int", "long", "float", "double", "signed",
                       "unsigned", "const", "volatile", "half", "__half", "auto"});
}
bool is_decoration(std::string_view w) {
  return is_one_of(w, {"const", "volatile", "__restrict__", "__restrict", "restrict", "struct",
                       "typename", "__grid_constant__", "register"});
}

std::string join(const Tokens& t, size_t from, size_t end) {
  std::string text;
  for (size_t i = from; i < end; ++i) {
    if (!text.empty() && is_word(t[i]) &&
        (in_word(text.back()) || text.back() == '*' || text.back() == '>'))
      text += ' ';
    text += t[i];
  }
  return text;
}

/// The sizes in "[3][4]" from `i` on; -1 for a size that is not a plain number.
std::vector<int64_t> bounds(const Tokens& t, size_t i, size_t end) {
  std::vector<int64_t> sizes;
  while (i < end && t[i] == "[") {
    const size_t close = after_bracket(t, i, end);
    int64_t n = -1;
    if (close == i + 3) {
      const std::string_view digits = t[i + 1];
      const auto [at, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
      if (error != std::errc() || at != digits.data() + digits.size() || n < 0) n = -1;
    }
    sizes.push_back(n);
    i = close;
  }
  return sizes;
}

/// Parses `mt::tensor2<const float> m`; returns false for anything else.
bool accessor(const Tokens& t, size_t from, size_t end, CudaParameter& p) {
  size_t i = from;
  while (i < end && (t[i] == "const" || t[i] == ":")) ++i;
  if (i + 5 >= end || t[i] != "mt" || t[i + 1] != ":" || t[i + 2] != ":" || t[i + 4] != "<")
    return false;
  const std::string_view name = t[i + 3];
  if (name.size() != 7 || !name.starts_with("tensor") || name[6] < '1' || name[6] > '4')
    return false;
  const size_t close = after_bracket(t, i + 4, end);
  Tokens element;
  for (size_t k = i + 5; k + 1 < close; ++k)
    if (t[k] == "const") p.type.read_only = true;
    else element.push_back(t[k]);
  p.type.text = join(t, from, end);
  Scalar s{};
  if (!scalar_named(element, s) || !s.dtype || s.kind == CudaType::unknown) return true;
  if (close + 1 < end || (close < end && !is_word(t[close]))) return true;  // such as a reference
  if (close < end) p.name = t[close];
  p.type.kind = CudaType::accessor, p.type.element = s.dtype, p.type.bytes = s.bytes;
  p.type.rank = name[6] - '0';
  return true;
}

/// The index of the array bounds of a parameter, or of the parenthesis of (*name).
size_t bound_of(const Tokens& t, size_t from, size_t end) {
  for (size_t i = from; i < end; ++i) {
    if (t[i] == "<") i = after_bracket(t, i, end) - 1;
    else if (t[i] == "[" || (t[i] == "(" && i > from)) return i;
  }
  return end;
}

/// Parses one parameter: the tokens from `from` to `end`.
CudaParameter parameter(const Tokens& t, size_t from, size_t end) {
  CudaParameter p;
  if (accessor(t, from, end, p)) return p;
  for (size_t i = from; i < end; ++i)  // a default value is not part of the type
    if (t[i] == "=") end = i;
    else if (t[i] == "(" || t[i] == "[" || t[i] == "{") i = after_bracket(t, i, end) - 1;
  // The name is inside (*name), or the last word before the bounds that is not part of the type.
  const size_t bound = bound_of(t, from, end);
  size_t name = end;
  const bool boxed = bound < end && t[bound] == "(";
  const size_t box_end = boxed ? after_bracket(t, bound, end) : bound;
  size_t stars = 0, boxed_stars = 0, words = 0;
  bool to_const = false, readable = true;
  if (boxed) {
    for (size_t i = bound + 1; i + 1 < box_end; ++i)
      if (t[i] == "*") ++boxed_stars;
      else if (is_word(t[i]) && !is_decoration(t[i])) name = i;
      else if (!is_word(t[i])) readable = false;
  }
  Tokens type;
  for (size_t i = from; i < bound; ++i) words += is_word(t[i]) && !is_decoration(t[i]);
  for (size_t i = from; i < bound; ++i) {
    const bool last = i + 1 == bound;
    if (is_word(t[i]) && last && !boxed && words > 1 && !is_type_word(t[i]) && t[i - 1] != ":" &&
        !is_decoration(t[i])) {
      name = i;
    } else if (t[i] == "*") {
      ++stars;
    } else if (t[i] == "const") {
      to_const |= stars == 0;
    } else if (is_decoration(t[i])) {
    } else if (is_word(t[i]) && stars == 0) {
      type.push_back(t[i]);
    } else if (t[i] == ":" && type.size() == 1 && type[0] == "std") {
      type.clear();
      ++i;
    } else if (t[i] == ":" && type.empty()) {
    } else {
      readable = false;  // a reference, a template, an expression
    }
  }
  if (name < end) p.name = t[name];
  p.type.text = join(t, from, end);
  stars += boxed_stars;
  // As a parameter, `float f[5][3]` is `float (*f)[3]`.
  std::vector<int64_t> sizes = bounds(t, boxed ? box_end : bound, end);
  if (!boxed && !sizes.empty()) sizes.erase(sizes.begin()), ++stars;
  Scalar s{};
  if (!readable || stars > 1 || !scalar_named(type, s)) return p;
  if (stars == 0 && s.kind != CudaType::unknown) {
    p.type.kind = s.kind, p.type.bytes = s.bytes, p.type.is_signed = s.is_signed;
  } else if (stars == 1) {
    p.type.kind = CudaType::pointer, p.type.bytes = s.bytes, p.type.lanes = s.lanes;
    p.type.element = s.dtype ? s.dtype : "";
    p.type.read_only = to_const;
    p.type.sizes = sizes;
  }
  return p;
}

/// Parses the parameters between the parenthesis at `open` and its partner.
std::vector<CudaParameter> parameters(const Tokens& t, size_t open, size_t end) {
  std::vector<CudaParameter> list;
  const size_t close = after_bracket(t, open, end) - 1;
  size_t from = open + 1;
  if (from >= close || (from + 1 == close && t[from] == "void")) return list;
  int angles = 0;
  for (size_t i = from; i <= close; ++i) {
    if (i < close && (t[i] == "(" || t[i] == "[" || t[i] == "{")) {
      i = std::min(after_bracket(t, i, close), close) - 1;
      continue;
    }
    angles += t[i] == "<" ? 1 : t[i] == ">" && angles > 0 ? -1 : 0;
    if (i < close && (t[i] != "," || angles > 0)) continue;
    list.push_back(parameter(t, from, i));
    from = i + 1;
  }
  return list;
}

/// Parses a kernel, from the token after __global__ on; returns false if there is none.
bool kernel_at(const Tokens& t, size_t i, CudaFunction& f) {
  while (i < t.size() && t[i] != ";" && t[i] != "{" && t[i] != "}") {
    if (t[i] == "[") {
      i = after_bracket(t, i, t.size());
      continue;
    }
    if (!is_word(t[i]) || i + 1 >= t.size()) {
      ++i;
      continue;
    }
    size_t open = i + 1;
    if (t[open] == "<") open = after_bracket(t, open, t.size());
    if (open >= t.size() || t[open] != "(") {
      ++i;
      continue;
    }
    const bool attribute = t[i].substr(0, 2) == "__" && t[i].size() > 4 && t[i].ends_with("__");
    if (attribute || t[i] == "alignas" || t[i] == "decltype") {
      i = after_bracket(t, open, t.size());
      continue;
    }
    f.name = t[i];
    f.parameters = parameters(t, open, t.size());
    return true;
  }
  return false;
}

/// Parses the variables of a declaration, from the token after __constant__ or __device__ on:
/// `float f[3][3], scale;`. Functions are skipped.
void variables_at(const Tokens& t, size_t i, std::vector<CudaVariable>& list) {
  const size_t from = i;
  size_t end = from;
  for (; end < t.size() && t[end] != ";"; ++end) {
    if (is_one_of(t[end], {"(", "}", "#"})) return;
    if (t[end] == "{" || t[end] == "[") end = after_bracket(t, end, t.size()) - 1;
  }
  if (end >= t.size()) return;
  CudaType type;
  for (; i < end; ++i) {
    size_t stop = i;
    for (; stop < end && t[stop] != ","; ++stop)
      if (t[stop] == "{" || t[stop] == "[") stop = after_bracket(t, stop, end) - 1;
    size_t name = i;
    while (name < stop && t[name] != "=" && t[name] != "[" && t[name] != "{") ++name;
    if (name > i && is_word(t[name - 1])) {
      if (i == from) {  // for the first one, the words before it are the type
        const Tokens words(t.begin() + long(i), t.begin() + long(name - 1));
        Tokens plain;
        for (const std::string_view w : words)
          if (!is_decoration(w) &&
              !is_one_of(w, {"static", "extern", "__device__", "__constant__", "inline"}))
            plain.push_back(w);
        Scalar s{};
        type.text = join(words, 0, words.size());
        if (scalar_named(plain, s) && s.dtype)
          type.kind = s.kind, type.bytes = s.bytes, type.element = s.dtype, type.lanes = s.lanes;
      }
      list.push_back({std::string(t[name - 1]), type});
    }
    i = stop;
  }
}

/// Whether a word is of a host program: a function or type of PyTorch or of CUDA's runtime.
bool is_of_host(std::string_view word) {
  return is_one_of(word, {"at", "dim3", "PYBIND11_MODULE"}) || word.starts_with("torch") ||
         word.starts_with("TORCH_") || word.starts_with("C10_") || word.starts_with("cuda");
}

void read_directive(std::string_view line, CudaText& text) {
  line.remove_prefix(line[0] == '#' ? 1 : 2);
  const Tokens t = Lexer(line).tokens;
  if (t.empty() || !t[0].starts_with("include")) return;
  text.includes = true;
  text.reads_files |= t.size() < 2 || t[1] != "<";
}

}  // namespace

CudaText read_cuda(std::string_view source) {
  const std::string spliced = splice(source);
  const Lexer lexer(spliced);
  const Tokens& t = lexer.tokens;
  CudaText text;
  for (const std::string_view line : lexer.directives) {
    read_directive(line, text);
    for (const char* word : {"__LINE__", "__FILE__", "assert"})
      text.says_where |= line.find(word) != line.npos;
    text.prints |= line.find("printf") != line.npos;
    text.hides |= line.find("__global__") != line.npos;
  }
  for (size_t i = 0; i < t.size(); ++i) {
    text.accessors |= t[i] == "mt" && i + 3 < t.size() && t[i + 3].starts_with("tensor");
    text.says_where |= is_one_of(t[i], {"__LINE__", "__FILE__", "assert"});
    text.prints |= t[i] == "printf";
    text.has_host_code |= is_of_host(t[i]);
    if (t[i] == "__constant__" || t[i] == "__device__") variables_at(t, i + 1, text.variables);
    CudaFunction f;
    if (t[i] != "__global__" || !kernel_at(t, i + 1, f)) continue;
    f.is_template =
        i > 0 && t[i - 1] == ">" && !(i > 2 && t[i - 2] == "<");  // `template <>` names one
    text.kernels.push_back(f);
  }
  return text;
}

std::vector<CudaParameter> parse_parameters(std::string_view text) {
  const Lexer lexer(text);
  const Tokens& t = lexer.tokens;
  size_t close = t.size();
  while (close > 0 && t[close - 1] != ")") --close;
  if (close == 0) return {};
  const size_t open = opening_of(t, close - 1);
  return open == text.npos ? std::vector<CudaParameter>{} : parameters(t, open, close);
}

}  // namespace mt
