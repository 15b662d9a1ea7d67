// wav.cpp -- WAV (RIFF): sound as a tensor [channels x frames]
#include "engine/io/formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "engine/io/bytes.h"

namespace mt {
namespace {

enum Encoding : unsigned { kPcm = 1, kFloat = 3, kExtensible = 0xfffe };

uint32_t number_at(std::string_view s, size_t at, int n) {
  return uint32_t(little_endian(s.data() + at, n));
}

struct Format {
  unsigned kind = 0, channels = 0, rate = 0, bits = 0;
  unsigned frame = 0;  // the number of bytes of a frame
};

Format read_format(std::string_view chunk) {
  if (chunk.size() < 16) fail("its format has {} bytes, at least 16 are needed", chunk.size());
  Format f{number_at(chunk, 0, 2), number_at(chunk, 2, 2), number_at(chunk, 4, 4),
           number_at(chunk, 14, 2), number_at(chunk, 12, 2)};
  if (f.kind == kExtensible && chunk.size() >= 26) f.kind = number_at(chunk, 24, 2);
  const bool pcm = f.kind == kPcm && f.bits % 8 == 0 && f.bits >= 8 && f.bits <= 32;
  const bool floats = f.kind == kFloat && (f.bits == 32 || f.bits == 64);
  if (!pcm && !floats)
    fail("its encoding {} with {} bits is not supported; PCM of 8, 16, 24, 32 bits and floats are",
         f.kind, f.bits);
  if (f.channels == 0) fail("it has no channels");
  if (f.rate == 0) fail("its sample rate is 0");
  if (f.frame != f.channels * (f.bits / 8))
    fail("a frame of {} channels of {} bits has {} bytes, its header says {}", f.channels, f.bits,
         f.channels * (f.bits / 8), f.frame);
  return f;
}

void read_samples(const Tensor& out, int64_t frames, const auto& sample) {
  const int64_t channels = out.size(0);
  float* const to = out.data_as<float>();
  for (int64_t i = 0; i < frames; ++i)
    for (int64_t c = 0; c < channels; ++c) to[c * frames + i] = sample(i * channels + c);
}

template <class T> T value_at(std::string_view s, int64_t i) {
  T v;
  std::memcpy(&v, s.data() + size_t(i) * sizeof v, sizeof v);
  return v;
}

Sound read_data(const Format& f, std::string_view data) {
  const auto frames = int64_t(data.size() / f.frame);
  Sound sound{empty({int64_t(f.channels), frames}, Dtype::f32), int64_t(f.rate)};
  const Tensor& x = sound.samples;
  if (f.kind == kFloat && f.bits == 32) {
    read_samples(x, frames, [&](int64_t i) { return value_at<float>(data, i); });
  } else if (f.kind == kFloat) {
    read_samples(x, frames, [&](int64_t i) { return float(value_at<double>(data, i)); });
  } else if (f.bits == 8) {
    read_samples(x, frames, [&](int64_t i) { return float(uint8_t(data[i]) - 128) / 128; });
  } else {
    const int bytes = int(f.bits / 8);
    read_samples(x, frames, [&](int64_t i) {
      const uint32_t v = number_at(data, size_t(i) * size_t(bytes), bytes) << (32 - 8 * bytes);
      return float(double(int32_t(v)) / 2147483648.0);
    });
  }
  return sound;
}

void put_sample(std::string& out, const Tensor& x, int64_t i, int bits, bool floats) {
  if (x.dtype() == Dtype::u8) return put_le(out, x.data_as<uint8_t>()[i], 1);
  if (x.dtype() == Dtype::i16) return put_le(out, uint16_t(x.data_as<int16_t>()[i]), 2);
  if (x.dtype() == Dtype::i32) return put_le(out, uint32_t(x.data_as<int32_t>()[i]), 4);
  const float v = x.data_as<float>()[i];
  uint32_t word;
  if (floats) return std::memcpy(&word, &v, 4), put_le(out, word, 4);
  const double scale = std::ldexp(1.0, bits - 1);
  const double whole = std::isnan(v) ? 0 : std::clamp(std::nearbyint(v * scale), -scale, scale - 1);
  put_le(out, uint32_t(int32_t(whole)) + (bits == 8 ? 128 : 0), bits / 8);
}

}  // namespace

Sound parse_wav(std::string_view s) {
  const size_t size = s.size();
  if (size < 12 || s.substr(0, 4) != "RIFF" || s.substr(8, 4) != "WAVE")
    fail("it is not a WAV file");
  Format format;
  for (size_t at = 12; size - at >= 8;) {
    const std::string_view name = s.substr(at, 4);
    const uint64_t length = number_at(s, at + 4, 4);
    at += 8;
    // A program that writes to a pipe does not know the length; an interrupted one leaves 0, and a
    // RIFF chunk that ends before the file does.
    const bool cut = length == 0 && number_at(s, 4, 4) + 8 < size;
    const bool unknown = name == "data" && (length == 0xffffffff || cut);
    if (!unknown && length > size - at)
      fail("it ends too early: {} bytes of the {} of a chunk are there", size - at, length);
    const std::string_view chunk = s.substr(at, unknown ? size - at : length);
    if (name == "fmt ") format = read_format(chunk);
    if (name == "data") {
      if (format.channels == 0) fail("its data come before their format");
      return read_data(format, chunk);
    }
    at = std::min<uint64_t>(size, at + length + length % 2);
  }
  fail("it has no data");
}

std::string write_wav(const Tensor& x, int64_t rate, int bits) {
  const int64_t channels = x.size(0), frames = x.size(1);
  const bool real = x.dtype() == Dtype::f32, floats = real && bits == 0;
  if (!real) bits = 8 * int(item_size(x.dtype()));
  else if (floats) bits = 32;
  const int64_t bytes = x.numel() * (bits / 8);
  if (channels < 1 || channels > 65535) fail("a WAV has 1 to 65535 channels, got {}", channels);
  if (rate < 1 || rate > 0x7fffffff)
    fail("the sample rate is {}, it must lie in 1..{}", rate, 0x7fffffff);
  if (bytes > 0xffff0000) fail("a WAV holds at most 4 GiB, these samples need {} bytes", bytes);
  const auto frame = uint32_t(channels * (bits / 8));
  std::string out = "RIFF";
  put_le(out, uint32_t(36 + bytes + bytes % 2), 4);
  out += "WAVEfmt ";
  put_le(out, 16, 4), put_le(out, floats ? kFloat : kPcm, 2), put_le(out, uint32_t(channels), 2);
  put_le(out, uint32_t(rate), 4), put_le(out, uint32_t(rate) * frame, 4), put_le(out, frame, 2);
  put_le(out, uint32_t(bits), 2);
  out += "data";
  put_le(out, uint32_t(bytes), 4);
  out.reserve(out.size() + size_t(bytes) + 1);
  for (int64_t i = 0; i < frames; ++i)
    for (int64_t c = 0; c < channels; ++c) put_sample(out, x, c * frames + i, bits, floats);
  if (bytes % 2) out.push_back('\0');
  return out;
}

}  // namespace mt
