// unicode.h -- code points of UTF-8 text and their categories, normalization forms and lower case
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mt {

/// The code point at p, which is advanced. A byte that does not begin one (RFC 3629) gives a value
/// beyond Unicode, 0x110000 + byte.
uint32_t next_character(const char*& p, const char* end);
bool is_utf8(std::string_view text);
/// The beginning of the code point that ends at p.
const char* previous_character(const char* p, const char* begin);
void append_utf8(std::string& text, uint32_t character);

/// The general category as a bit: 1 << index in kCategories.
uint32_t category_bit(uint32_t character);
/// The categories of \w: letters, marks, digits, connectors.
uint32_t word_mask();
/// The categories with a Unicode name ("L", "Lu"), or 0.
uint32_t category_mask(std::string_view name);

// ---- with libutf8proc (unicode_forms.cpp)

enum class TextForm { nfc, nfd, nfkc, nfkd, lowercase };

/// The text in a normalization form; bytes that are not valid UTF-8 are kept.
std::string in_form(TextForm, std::string_view text);
/// Throws Error if libutf8proc cannot be loaded.
void check_text_forms();

}  // namespace mt
