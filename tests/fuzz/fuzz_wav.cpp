// fuzz_wav.cpp -- the WAV parser
#include "engine/io/formats.h"
#include "tests/fuzz/fuzz.h"

MT_FUZZ({ mt::parse_wav({data, size}); })
