// image.h -- PNG and JPEG: bytes as pixels, pixels as bytes
//
// libpng and TurboJPEG are opened at first use; PNG is written by zlib alone. All functions may be
// called on several threads at once.
#pragma once
#include <string>

#include "engine/core/tensor.h"

namespace mt {

/// The pixels of a PNG or JPEG image in memory, uint8 [channels x height x width]: 1 gray, 2 gray and
/// alpha, 3 RGB, 4 RGB and alpha; `channels` converts, 0 leaves them as in the file. 16 bits become 8,
/// palettes RGB, CMYK RGB. Throws on damaged files and on more than 178956970 pixels (Pillow's limit).
Tensor decode_image(const void* data, size_t size, int channels = 0);

/// A PNG file of uint8 [channels x height x width], 1 to 4 channels; contiguous, on the CPU.
std::string encode_png(const Tensor& pixels);
/// The same of pixels whose channels stand together, [height x width x channels].
std::string encode_png(const uint8_t* pixels, size_t height, size_t width, int channels);
/// A JPEG file of uint8 [channels x height x width], 1 or 3 channels; quality from 1 to 100.
std::string encode_jpeg(const Tensor& pixels, int quality);

}  // namespace mt
