#include "tests/engine/bundle/temp_bundle.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace beamwright::bundle {
namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string name = (fs::temp_directory_path() / "beamwright-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TempFolder::~TempFolder() { fs::remove_all(path_); }

void TempFolder::Write(const std::string& relative, const std::string& content) const {
  fs::create_directories(fs::path(At(relative)).parent_path());
  std::ofstream(At(relative), std::ios::binary) << content;
}

void TempFolder::Link(const std::string& relative, const std::string& target) const {
  fs::create_directories(fs::path(At(relative)).parent_path());
  fs::create_symlink(target, At(relative));
}

void TempFolder::Remove(const std::string& relative) const { fs::remove_all(At(relative)); }

std::string TempFolder::Read(const std::string& relative) const {
  std::ostringstream content;
  content << std::ifstream(At(relative), std::ios::binary).rdbuf();
  return content.str();
}

std::string GoodConfig() {
  return R"(format_version: 1
encoder { graph: "graph.xml" }
decoder { graph: "graph.xml" logits_output: "out" }
source { form: TEXT_FORM_CHARACTERS vocabulary: "source.vocab" unknown_token: "<unk>" }
target {
  form: TEXT_FORM_WHITESPACE vocabulary: "target.vocab"
  begin_token: "<s>" end_tokens: "</s>"
}
)";
}

void WriteBundle(const TempFolder& temp, const std::string& relative) {
  const std::string prefix = relative.empty() ? "" : relative + "/";
  temp.Write(prefix + "model.textproto", GoodConfig());
  temp.Write(prefix + "source.vocab", "<unk>\na\nb\nc\n");
  temp.Write(prefix + "target.vocab", "<s>\n</s>\nAA\nB\nK\n");
  temp.Write(prefix + "graph.xml", R"(<?xml version="1.0"?>
<net name="copy" version="11">
  <layers>
    <layer id="0" name="in" type="Parameter" version="opset1">
      <data shape="?,4" element_type="f32"/>
      <output><port id="0" precision="FP32" names="in"><dim>-1</dim><dim>4</dim></port></output>
    </layer>
    <layer id="1" name="out" type="Result" version="opset1">
      <input><port id="0" precision="FP32"><dim>-1</dim><dim>4</dim></port></input>
    </layer>
  </layers>
  <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>
</net>
)");
}

}  // namespace beamwright::bundle
