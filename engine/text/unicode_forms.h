// unicode_forms.h -- Unicode normalization forms and lower case, with libutf8proc
#pragma once
#include <string>
#include <string_view>

namespace mt {

enum class TextForm { nfc, nfd, nfkc, nfkd, lowercase };

/// The text in a normalization form; bytes that are not valid UTF-8 are kept.
std::string in_form(TextForm, std::string_view text);
/// Throws Error if libutf8proc cannot be loaded.
void check_text_forms();

}  // namespace mt
