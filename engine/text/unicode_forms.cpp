// unicode_forms.cpp -- Unicode normalization forms and lower case, with libutf8proc
#include <cstdlib>
#include <memory>

#include "engine/io/required_library.h"
#include "engine/text/unicode.h"

extern "C" {  // of utf8proc.h
ptrdiff_t utf8proc_map(const uint8_t* text, ptrdiff_t length, uint8_t** result, int options);
int32_t utf8proc_tolower(int32_t character);
}

namespace mt {
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
  const auto add = [&](std::string_view part) {
    if (!part.empty()) out += form == TextForm::lowercase ? lower(part) : normalize(form, part);
  };
  const char *const end = text.data() + text.size(), *from = text.data();
  for (const char* p = from; p < end;) {
    const char* const at = p;
    if (next_character(p, end) < 0x110000) continue;
    add({from, size_t(at - from)});
    out.append(at, p - at);
    from = p;
  }
  add({from, size_t(end - from)});
  return out;
}

}  // namespace mt
