// The C face of the SentencePiece library, in a separate shared object
// (libbeamwright_sentencepiece.so).
//
// The distribution's libsentencepiece carries a copy of an older protobuf and exports its symbols.
// In a program that uses protobuf too, the loader binds both to whichever comes first, and the
// other one breaks. So the library is never linked: sentencepiece_codec.cc loads this shim, and
// with it the library, by dlopen with RTLD_DEEPBIND, which binds each to its own.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_SENTENCEPIECE_SHIM_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_SENTENCEPIECE_SHIM_H_

#include <stddef.h>
#include <stdint.h>

extern "C" {

// Text that the callee hands out, whole, during the call.
typedef void (*BwSpText)(void* context, const char* data, size_t size);
typedef void (*BwSpId)(void* context, int32_t id);

// A table of functions, so that one symbol is looked up. Handles are thread-safe. `error` and
// `text` are called at most once, `piece` and `id` once per piece.
struct BwSpFunctions {
  // Null, after a call of `error`, if `model` is not a model file.
  void* (*load)(const char* model, size_t size, BwSpText error, void* context);
  void (*unload)(void* handle);
  int32_t (*size)(const void* handle);
  int32_t (*unknown_id)(const void* handle);
  // Ids of unknown pieces come back as that of the unknown piece.
  int32_t (*find)(const void* handle, const char* piece, size_t size);
  void (*piece)(const void* handle, int32_t id, BwSpText text, void* context);
  // 0, after a call of `error`, on failure.
  int (*encode)(const void* handle, const char* text, size_t size, BwSpId id, BwSpText error,
                void* context);
  void (*encode_pieces)(const void* handle, const char* text, size_t size, BwSpText piece,
                        void* context);
  void (*decode)(const void* handle, const int32_t* ids, size_t size, BwSpText text, void* context);
};

// Name of the one exported function: const BwSpFunctions* beamwright_sentencepiece(void).
typedef const struct BwSpFunctions* (*BwSpEntry)(void);

}  // extern "C"

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_SENTENCEPIECE_SHIM_H_
