// regex.cpp -- the regular expressions of tokenizers, by PCRE2
#include "engine/text/regex.h"

#include <algorithm>

#include "engine/io/required_library.h"
#include "engine/text/unicode.h"

extern "C" {  // of pcre2.h
struct pcre2_real_match_data_8;
pcre2_real_code_8* pcre2_compile_8(const uint8_t* pattern, size_t length, uint32_t options,
                                   int* error, size_t* position, void* context);
void pcre2_code_free_8(pcre2_real_code_8*);
int pcre2_jit_compile_8(pcre2_real_code_8*, uint32_t options);
int pcre2_get_error_message_8(int error, uint8_t* text, size_t room);
pcre2_real_match_data_8* pcre2_match_data_create_8(uint32_t pairs, void* context);
void pcre2_match_data_free_8(pcre2_real_match_data_8*);
size_t* pcre2_get_ovector_pointer_8(pcre2_real_match_data_8*);
int pcre2_match_8(const pcre2_real_code_8*, const uint8_t* text, size_t length, size_t from,
                  uint32_t options, pcre2_real_match_data_8*, void* context);
}

namespace mt {
namespace {

constexpr uint32_t kMultiline = 0x400, kProperties = 0x20000, kUtf8 = 0x80000,
                   kNoSingleBytes = 0x100000, kNotEmpty = 4, kNoMachineCode = 0x2000,
                   kIsValid = 0x40000000;
constexpr int kNoMatch = -1, kStackIsFull = -46;  // the stack of machine code

struct Pcre2 : RequiredLibrary {
  Pcre2() : RequiredLibrary("tokenizers", "libpcre2-8-0", {"libpcre2-8.so.0"}) {}
};
#define PCRE2(name) MT_LOADED(Pcre2, name)

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

/// Spaces and words as Unicode has them: PCRE2's \s has U+180E, and its \w lacks marks.
std::string with_unicode(std::string_view pattern) {
  constexpr std::string_view kSpace = "\\t-\\r\\x{85}\\p{Z}", kWord = MT_WORD;
  std::string out;
  bool in_class = false;
  size_t first = 0;  // of a class: a bracket there is a character
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (in_class ? c == ']' && out.size() > first : c == '[') {
      in_class = !in_class;
      first = out.size() + (pattern.substr(i + 1).starts_with('^') ? 2 : 1);
    }
    out += c;
    if (c != '\\' || i + 1 == pattern.size()) continue;
    const char letter = pattern[++i];
    const std::string_view set = letter == 's' || letter == 'S' ? kSpace : kWord;
    const bool negative = letter == 'S' || letter == 'W';
    if ((!negative && letter != 's' && letter != 'w') || (negative && in_class)) out += letter;
    else if (out.pop_back(); in_class) out += set;
    else out.append(negative ? "[^" : "[").append(set) += ']';
  }
  return out;
}

}  // namespace

Regex::Regex(std::string_view pattern) {
  // In the patterns of other matchers these are classes in classes, and hexadecimal digits.
  for (const char* other : {"&&", "[[", "\\h", "\\H"})
    if (pattern.find(other) != pattern.npos)
      fail("the pattern has {}, which is not supported", other);
  int error = 0;
  size_t position = 0;
  const auto compile = [&](std::string_view text) {
    code_.reset(PCRE2(pcre2_compile_8)(bytes_of(text), text.size(),
                                       kMultiline | kProperties | kUtf8 | kNoSingleBytes, &error,
                                       &position, nullptr),
                PCRE2(pcre2_code_free_8));
    return bool(code_);
  };
  if (!compile(with_unicode(pattern)) && !compile(pattern)) {
    char why[256] = "";
    PCRE2(pcre2_get_error_message_8)(error, reinterpret_cast<uint8_t*>(why), sizeof why);
    fail("the pattern is not valid at character {}: {}", position + 1, why);
  }
  PCRE2(pcre2_jit_compile_8)(code_.get(), 1);  // machine code; without it the matcher is slower
}

void Regex::each_match(std::string_view text,
                       const std::function<void(std::string_view)>& f) const {
  const std::shared_ptr<pcre2_real_match_data_8> match(PCRE2(pcre2_match_data_create_8)(1, nullptr),
                                                       PCRE2(pcre2_match_data_free_8));
  const size_t* const range = PCRE2(pcre2_get_ovector_pointer_8)(match.get());
  int64_t count = 0;
  const auto search = [&](std::string_view part, size_t from) {
    if (count++ % 4096 == 0) check_interrupt();
    const auto run = [&](uint32_t options) {
      return PCRE2(pcre2_match_8)(code_.get(), bytes_of(part), part.size(), from,
                                  options | kNotEmpty | kIsValid, match.get(), nullptr);
    };
    int status = run(0);
    if (status == kStackIsFull) status = run(kNoMachineCode);
    if (status < kNoMatch) fail("encode: the pattern takes too long on this text");
    return status >= 0 && range[0] < range[1];
  };
  while (!text.empty()) {
    const std::string_view part = text.substr(0, utf8_length(text));
    for (size_t at = 0; at < part.size() && search(part, at); at = range[1])
      f(part.substr(range[0], range[1] - range[0]));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
}

bool Regex::is_in(std::string_view text) const {
  bool found = false;
  each_match(text, [&](std::string_view) { found = true; });
  return found;
}

}  // namespace mt
