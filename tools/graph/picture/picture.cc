#include "tools/graph/picture/picture.h"

#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ops/base/check.h"
#include "ops/base/json_writer.h"
#include "tools/graph/picture/draw.h"
#include "tools/graph/picture/picture_files.h"

namespace beamwright::ops {
namespace {

absl::string_view FileNamed(absl::string_view name) {
  for (const PictureFile& file : PictureFiles()) {
    if (file.name == name) {
      return file.content;
    }
  }
  BW_CHECK(false);
  return "";
}

// A source of Content Security Policy: what is inline is allowed by its hash alone.
std::string HashSource(absl::string_view content) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::StrCat("'sha256-", absl::Base64Escape(digest), "'");
}

// JSON inside a script element: no "</script>", no "<!--", whatever names hold.
std::string ForScriptElement(absl::string_view json) {
  return absl::StrReplaceAll(json, {{"<", "\\u003c"},
                                    {">", "\\u003e"},
                                    {"&", "\\u0026"},
                                    {"\xE2\x80\xA8", "\\u2028"},
                                    {"\xE2\x80\xA9", "\\u2029"}});
}

}  // namespace

std::string PictureSvg(const PictureView& view) {
  int numbers = 0;
  return DrawView(view, MakeRooms(view, numbers), FileNamed("picture.css"));
}

std::string PictureHtml(const std::string& name, const std::vector<PictureView>& views) {
  JsonWriter json;
  std::string pictures;
  int numbers = 0;
  json.BeginArray();
  for (const PictureView& view : views) {
    const std::vector<Room> rooms = MakeRooms(view, numbers);
    json.BeginObject();
    json.Key("title").String(view.title);
    json.Key("remarks").BeginArray();
    for (const std::string& remark : view.remarks) {
      json.String(Shortened(remark, 2000));
    }
    json.EndArray();
    json.Key("rooms");
    WriteRooms(view, rooms, json);
    json.EndObject();
    absl::StrAppend(&pictures, "<div class=\"view\">", DrawView(view, rooms, ""), "</div>\n");
  }
  json.EndArray();
  const std::string style = absl::StrCat(FileNamed("picture.css"), FileNamed("show.css"));
  const std::string script(FileNamed("show.js"));
  const std::string policy =
      absl::StrCat("default-src 'none'; base-uri 'none'; form-action 'none'; style-src ",
                   HashSource(style), "; script-src ", HashSource(script));
  // What is put in last is not searched again: names can't stand for other parts of the page.
  std::string page(FileNamed("show.html"));
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"@POLICY@", policy},     {"@STYLE@", style},
      {"@SCRIPT@", script},     {"@NAME@", Escaped(Shortened(name, 200))},
      {"@PICTURES@", pictures}, {"@DATA@", ForScriptElement(json.text())}};
  return absl::StrReplaceAll(page, parts);
}

}  // namespace beamwright::ops
