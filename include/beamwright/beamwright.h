/* libbeamwright: decoding in process. It is the server's engine without a server: it loads a
 * bundle (docs/bundle.md), decodes, scores and aligns, and answers with the bits that a server of
 * the same version gives.
 *
 * The interface is small so that it can stay as it is: five calls, and requests and answers as
 * serialised messages of proto/beamwright/v1/decode.proto, which every language reads. New options
 * of a search are new fields there, and change nothing here.
 *
 *     beamwright_model* model = NULL;
 *     beamwright_buffer answer;
 *     if (beamwright_load("models/g2p-en", NULL, &model, &answer) != BEAMWRIGHT_OK) {
 *       fprintf(stderr, "%s\n", answer.message);
 *       beamwright_buffer_free(&answer);
 *       return 1;
 *     }
 *     int code = beamwright_decode(model, request, request_size, 0, &answer);
 *     ... answer.data holds a DecodeResponse, or a google.rpc.Status if code is not BEAMWRIGHT_OK
 *     beamwright_buffer_free(&answer);
 *     beamwright_free(model);
 *
 * examples/decode_in_c.c and examples/decode_by_ctypes.py are whole programs; docs/library.md tells
 * more.
 *
 * Threads: all functions may be called from any number of threads at the same time, and for the
 * same model: its threads decode what several callers ask for together. A model may not be used
 * while, or after, it is freed.
 *
 * Processes: the threads of a model do not survive fork(). In the child of a process that has
 * loaded a model every call fails with BEAMWRIGHT_FAILED_PRECONDITION (reason FORKED), loading
 * included; none hangs. Load models after fork(), or start processes by exec.
 *
 * The library writes to no stream (but where it must end the process, because an invariant of its
 * own is broken), installs no signal handler, reads no environment variable of its own, and exports
 * nothing but what is declared here. */
#ifndef BEAMWRIGHT_BEAMWRIGHT_H_
#define BEAMWRIGHT_BEAMWRIGHT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BEAMWRIGHT_API __attribute__((visibility("default")))

/* Grows with each change that a program compiled before it cannot live with. The library's file
 * name bears it: libbeamwright.so.1. */
#define BEAMWRIGHT_ABI_VERSION 1

/* What functions return: OK, or a code of google.rpc.Code, as gRPC numbers them. */
enum {
  BEAMWRIGHT_OK = 0,
  BEAMWRIGHT_INVALID_ARGUMENT = 3,    /* the request or an option is wrong; details name fields */
  BEAMWRIGHT_DEADLINE_EXCEEDED = 4,   /* the timeout passed */
  BEAMWRIGHT_NOT_FOUND = 5,           /* no such folder, or another model's name */
  BEAMWRIGHT_RESOURCE_EXHAUSTED = 8,  /* no room or no memory for it */
  BEAMWRIGHT_FAILED_PRECONDITION = 9, /* nothing left to choose; FORKED */
  BEAMWRIGHT_INTERNAL = 13            /* a fault of the model or of the library */
};

/* A loaded model and the threads that decode with it. */
typedef struct beamwright_model beamwright_model;

/* Bytes that the library made. Free them with beamwright_buffer_free, whatever the function that
 * filled them returned. */
typedef struct beamwright_buffer {
  const void* data;    /* the message, serialised; may be NULL if size is 0 */
  size_t size;         /* in bytes */
  const char* message; /* of a failure: its text in UTF-8, which ends with 0; else NULL */
  void* reserved;
} beamwright_buffer;

/* How to load a model. Set struct_size to sizeof(beamwright_options) and what you do not know to 0:
 * a later library sees by the size which fields there are. NULL stands for all zeros. */
typedef struct beamwright_options {
  size_t struct_size;
  /* Threads that compute for this model. 0: as many as CPU affinity and cgroup allow. */
  int32_t num_threads;
  /* Most hypotheses that are stepped together; callers beyond wait. 0: 1024. A request needs
   * beam_size of them for each source. */
  int32_t max_rows;
  /* "f32", "bf16", "int8", "auto"; NULL: as the bundle says.
   * docs/numerics.md tells what they change. */
  const char* precision;
  /* Most requests of the bundle's golden.jsonl that are replayed before it counts as loaded;
   * 0: 100, as a server does; -1: none, which loads sooner. */
  int32_t golden_requests;
} beamwright_options;

/* BEAMWRIGHT_ABI_VERSION of the library itself. A program that opens it at run time compares. */
BEAMWRIGHT_API int beamwright_abi_version(void);

/* Such as "0.2.0". The program's for as long as it runs. */
BEAMWRIGHT_API const char* beamwright_version(void);

/* Loads a bundle: the folder of a version ("models/g2p-en/1"), or that of a model, whose newest
 * version is taken. On success *model is to be freed with beamwright_free and *error is empty; else
 * *model is NULL and *error holds why, as for the calls below. No argument but options may be
 * NULL. */
BEAMWRIGHT_API int beamwright_load(const char* path, const beamwright_options* options,
                                   beamwright_model** model, beamwright_buffer* error);

/* The calls: each takes a serialised request and waits for its answer, at most timeout_ms
 * milliseconds (0: as long as it takes).
 *
 * Returned is BEAMWRIGHT_OK, and *answer holds the serialised response; or a code, and *answer
 * holds a serialised google.rpc.Status with this code, a message, and details: ErrorInfo with a
 * reason, BadRequest with the fields that are wrong, SourceErrors where each source failed. They
 * are those of the server's calls of the same names (docs/operations.md, 'Status codes'): sources
 * are answered each on its own, and a call fails only as a whole or if all of its sources do.
 * `model` and `version` of a request may be left empty.
 *
 *     beamwright_decode    DecodeRequest -> DecodeResponse
 *     beamwright_score     ScoreRequest -> ScoreResponse
 *     beamwright_align     AlignRequest -> AlignResponse
 *     beamwright_describe  -> ModelDescription (proto/beamwright/v1/model.proto) */
BEAMWRIGHT_API int beamwright_decode(beamwright_model* model, const void* request, size_t size,
                                     int64_t timeout_ms, beamwright_buffer* answer);
BEAMWRIGHT_API int beamwright_score(beamwright_model* model, const void* request, size_t size,
                                    int64_t timeout_ms, beamwright_buffer* answer);
BEAMWRIGHT_API int beamwright_align(beamwright_model* model, const void* request, size_t size,
                                    int64_t timeout_ms, beamwright_buffer* answer);
BEAMWRIGHT_API int beamwright_describe(beamwright_model* model, beamwright_buffer* answer);

/* Frees what a function put there and empties it; an empty buffer, or NULL, is left alone. */
BEAMWRIGHT_API void beamwright_buffer_free(beamwright_buffer* buffer);

/* Ends the model's threads and frees it. NULL is left alone; in a forked child, so is the model. */
BEAMWRIGHT_API void beamwright_free(beamwright_model* model);

#ifdef __cplusplus
}
#endif

#endif /* BEAMWRIGHT_BEAMWRIGHT_H_ */
