// unicode.h -- characters of UTF-8 text and their categories
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mt {

/// The character at p, which moves behind it. A byte that begins none (RFC 3629) counts as one beyond
/// Unicode, 0x110000 + byte.
uint32_t next_character(const char*& p, const char* end);
bool is_utf8(std::string_view text);
/// The beginning of the character that ends at p.
const char* previous_character(const char* p, const char* begin);
void append_utf8(std::string& text, uint32_t character);

/// The general category as a bit: 1 << index in kCategories.
uint32_t category_bit(uint32_t character);
/// The categories of \w: letters, marks, digits, connectors.
uint32_t word_mask();
/// The categories that go by a name of Unicode ("L", "Lu"), or 0.
uint32_t category_mask(std::string_view name);

}  // namespace mt
