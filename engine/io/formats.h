// formats.h -- files of data in memory: images, sound, comma-separated values, MNIST's arrays
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/io/bytes.h"

namespace mt {

// ---- PNG and JPEG; PNG of SVG drawings (image.cpp) -------------------------------
//
// libpng, TurboJPEG, librsvg and cairo are loaded at first use. All functions are thread-safe.

/// Decodes PNG or JPEG from memory to uint8 [channels x height x width]: 1 gray, 2 gray and alpha,
/// 3 RGB, 4 RGB and alpha; `channels` converts, 0 keeps the file's. 16 bits become 8, palettes and
/// CMYK RGB. Throws for corrupt files and more than 178956970 pixels (Pillow's limit).
Tensor decode_image(std::string_view file, int channels = 0);

/// Encodes uint8 [channels x height x width] as PNG, 1 to 4 channels; contiguous, on the CPU.
std::string encode_png(const Tensor& pixels);
/// Encodes uint8 [channels x height x width] as JPEG, 1 or 3 channels; quality from 1 to 100.
std::string encode_jpeg(const Tensor& pixels, int quality);

/// Renders an SVG drawing on a white background as PNG, with `zoom` pixels per pixel or point of
/// the drawing. Throws Error if librsvg cannot be loaded, if the text is not SVG, and for more than
/// 16384 x 16384 pixels.
std::string svg_to_png(std::string_view svg, double zoom);

// ---- WAV (RIFF): sound as a tensor [channels x frames] (wav.cpp) --------------------------------

struct Sound {
  Tensor samples;  // float32 [channels x frames], -1..1 for integer files
  int64_t rate;    // frames per second
};

/// A WAV file in memory: PCM with 8 (unsigned), 16, 24 and 32 bits, and floats with 32 and 64.
/// Throws Error for other and corrupt files.
Sound parse_wav(std::string_view file);

/// A WAV file of samples [channels x frames]: uint8, int16, int32 unchanged, float32 as floats, or
/// with `bits` (8, 16, 24, 32) as integers, clamped to -1..1. Contiguous, on the CPU.
std::string write_wav(const Tensor& samples, int64_t rate, int bits);

// ---- comma-separated values (RFC 4180): columns of numbers as tensors, others as text (csv.cpp) -

struct CsvOptions {
  bool header = true;  // the first row has the names; otherwise they are "1", "2", ..
  char delimiter = ',';
  bool quotes = true;                // a quotation mark at the beginning of a cell quotes it
  std::vector<std::string> columns;  // the columns to read, in order; without a header, all names
  std::vector<std::string> text;     // the columns that stay text
};

/// One column: float64 if every cell is a number or empty (NaN), otherwise text. Numbers with a
/// leading zero (00501), and integers that a double would round (above 2^53), are codes: text.
struct CsvColumn {
  std::string name;
  Tensor numbers;
  std::vector<std::string> text;
};

/// Parses the columns of a text. Cells may be quoted ("" is a quote in it) and contain line breaks;
/// lines end with LF or CRLF, or all with CR; empty ones are skipped, and so is a UTF-8 BOM. nan,
/// NA, N/A, null and None in any usual case are NaN too. Errors contain line and column.
std::vector<CsvColumn> parse_csv(std::string_view text, const CsvOptions&);

/// Parses a number: decimal, inf or nan, with spaces around it; empty and NA are NaN. Returns false
/// if the text is not a number.
bool parse_number(std::string_view text, double& value);

// ---- the IDX format of MNIST: a header with the shape, then the values, big-endian (convert.cpp)

/// The tensor of an IDX file (yann.lecun.com/exdb/mnist), plain or gzip, in the dtype of the file.
/// Throws Error if the data is not exactly that.
Tensor parse_idx(Bytes&&);

}  // namespace mt
