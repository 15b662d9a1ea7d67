// image.h -- PNG and JPEG: decoding and encoding; PNG of SVG drawings
//
// libpng, TurboJPEG, librsvg and cairo are loaded at first use; writing PNG needs only zlib. All functions are
// thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "engine/core/tensor.h"

namespace mt {

/// Decodes PNG or JPEG from memory to uint8 [channels x height x width]: 1 gray, 2 gray and alpha,
/// 3 RGB, 4 RGB and alpha; `channels` converts, 0 keeps the file's. 16 bits become 8, palettes and
/// CMYK RGB. Throws for corrupt files and more than 178956970 pixels (Pillow's limit).
Tensor decode_image(const void* data, size_t size, int channels = 0);

/// Encodes uint8 [channels x height x width] as PNG, 1 to 4 channels; contiguous, on the CPU.
std::string encode_png(const Tensor& pixels);
/// The same for interleaved channels, [height x width x channels].
std::string encode_png(const uint8_t* pixels, size_t height, size_t width, int channels);
/// Encodes uint8 [channels x height x width] as JPEG, 1 or 3 channels; quality from 1 to 100.
std::string encode_jpeg(const Tensor& pixels, int quality);

/// Renders an SVG drawing on a white background as PNG, with `zoom` pixels per pixel or point of
/// the drawing. Throws Error if librsvg cannot be loaded, if the text is not SVG, and for more than
/// 16384 x 16384 pixels.
std::string svg_to_png(std::string_view svg, double zoom);

}  // namespace mt
