// JsonWriter: JSON text for every surface that speaks JSON, but for messages in protobuf's own JSON
// form. RapidJSON sets commas, indentation and escapes; what is decided here is how values come
// out: numbers in the fewest digits that are read as the same number, null for those that JSON
// lacks, and U+FFFD for every byte that is not UTF-8.
#ifndef BEAMWRIGHT_OPS_BASE_JSON_WRITER_H_
#define BEAMWRIGHT_OPS_BASE_JSON_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace beamwright {

// The caller balances Begin and End and gives every member of an object a key. Keys come out in the
// order in which they are put in. Not thread-safe.
class JsonWriter {
 public:
  enum class Style {
    kCompact,   // no white space
    kIndented,  // a value a line, indented by a space a level
  };

  explicit JsonWriter(Style style = Style::kCompact);
  ~JsonWriter();

  JsonWriter& Key(absl::string_view key);
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& String(absl::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  JsonWriter& Double(double value);  // null for infinities and NaN
  JsonWriter& Float(float value);    // null for infinities and NaN
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  // A value that is JSON already: a message in protobuf's form.
  JsonWriter& Json(absl::string_view value);

  // What has been written.
  const std::string& text() const;

 private:
  struct Writers;
  const std::unique_ptr<Writers> writers_;
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_JSON_WRITER_H_
