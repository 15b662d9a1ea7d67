// unicode.h -- code points of UTF-8 text, normalization forms and lower case
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mt {

/// The code point at p, which is advanced. A byte that does not begin one (RFC 3629) gives a value
/// beyond Unicode, 0x110000 + byte.
uint32_t next_character(const char*& p, const char* end);
/// The number of bytes before the first one that does not belong to a code point.
size_t utf8_length(std::string_view text);
inline bool is_utf8(std::string_view text) { return utf8_length(text) == text.size(); }
void append_utf8(std::string& text, uint32_t character);

// ---- with libutf8proc

enum class TextForm { nfc, nfd, nfkc, nfkd, lowercase };

/// The text in a normalization form; bytes that are not valid UTF-8 are kept.
std::string in_form(TextForm, std::string_view text);
/// Throws Error if libutf8proc cannot be loaded.
void check_text_forms();

}  // namespace mt
