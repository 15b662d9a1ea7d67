// unicode.cpp -- code points of UTF-8 text, normalization forms and lower case
#include "engine/text/unicode.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "engine/io/required_library.h"

extern "C" {  // of utf8proc.h
ptrdiff_t utf8proc_map(const uint8_t* text, ptrdiff_t length, uint8_t** result, int options);
int32_t utf8proc_tolower(int32_t character);
}

namespace mt {

uint32_t next_character(const char*& p, const char* end) {
  const auto byte = uint8_t(*p);
  if (byte < 0x80) return ++p, byte;
  const int continuations = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
  uint32_t c = byte & (0x3fu >> continuations);
  bool valid = byte >= 0xc2 && byte <= 0xf4 && end - p > continuations;
  for (int i = 1; valid && i <= continuations; ++i) {
    const auto next = uint8_t(p[i]);
    valid = (next & 0xc0) == 0x80;
    c = c << 6 | (next & 0x3f);
  }
  constexpr uint32_t kMinCodePoint[] = {0, 0x80, 0x800, 0x10000};
  if (!valid || c < kMinCodePoint[continuations] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    return ++p, 0x110000 + byte;
  return p += continuations + 1, c;
}

void append_utf8(std::string& text, uint32_t c) {
  const auto put = [&](uint32_t byte) { text.push_back(char(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  if (c < 0x10000) return put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f)),
      put(0x80 | (c & 0x3f));
}

size_t utf8_length(std::string_view text) {
  const char *const begin = text.data(), *const end = begin + text.size();
  for (const char* p = begin; p < end;)
    if (const char* const at = p; next_character(p, end) >= 0x110000) return at - begin;
  return text.size();
}

// ---- with libutf8proc: normalization forms and lower case ----------------------------------------

namespace {

struct Utf8proc : RequiredLibrary {
  Utf8proc()
      : RequiredLibrary("Unicode normalization", "libutf8proc-dev",
                        {"libutf8proc.so.3", "libutf8proc.so.2"}) {}
};
#define UTF8PROC(name) MT_LOADED(Utf8proc, name)

std::string normalize(TextForm form, std::string_view text) {
  constexpr int stable = 2, compatible = 4, compose = 8, decompose = 16;
  const bool composed = form == TextForm::nfc || form == TextForm::nfkc;
  const bool compatibility = form == TextForm::nfkc || form == TextForm::nfkd;
  uint8_t* result = nullptr;
  const ptrdiff_t length = UTF8PROC(utf8proc_map)(
      reinterpret_cast<const uint8_t*>(text.data()), ptrdiff_t(text.size()), &result,
      stable | (composed ? compose : decompose) | (compatibility ? compatible : 0));
  const std::unique_ptr<uint8_t, decltype(&std::free)> owner(result, std::free);
  if (length < 0) fail("a text of {} bytes cannot be normalized", text.size());
  return {reinterpret_cast<const char*>(result), size_t(length)};
}

std::string lower(std::string_view text) {
  std::string out;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const uint32_t c = next_character(p, end);
    append_utf8(out, c == 0x130 ? 'i' : uint32_t(UTF8PROC(utf8proc_tolower)(int32_t(c))));
    if (c == 0x130) append_utf8(out, 0x307);  // the only letter that becomes two code points
  }
  return out;
}

}  // namespace

void check_text_forms() { loaded<Utf8proc>(); }

std::string in_form(TextForm form, std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, utf8_length(text));
    if (!part.empty()) out += form == TextForm::lowercase ? lower(part) : normalize(form, part);
    out += text.substr(part.size(), 1);
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return out;
}

}  // namespace mt
