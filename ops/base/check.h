// BW_CHECK(condition): our own invariants, checked at load; prints the place and aborts. BW_DCHECK
// is the same in debug and sanitizer builds and nothing otherwise: for steps. Never for input: that
// is a Status.
#ifndef BEAMWRIGHT_OPS_BASE_CHECK_H_
#define BEAMWRIGHT_OPS_BASE_CHECK_H_

namespace beamwright {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace beamwright

#define BW_CHECK(condition)                                      \
  do {                                                           \
    if (!(condition)) {                                          \
      ::beamwright::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                            \
  } while (false)

#ifdef NDEBUG
#define BW_DCHECK(condition)    \
  do {                          \
    (void)sizeof(!(condition)); \
  } while (false)
#else
#define BW_DCHECK(condition) BW_CHECK(condition)
#endif

#endif  // BEAMWRIGHT_OPS_BASE_CHECK_H_
