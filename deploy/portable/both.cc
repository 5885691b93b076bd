// beamwright-server and beamwright in one program, which is the one whose name it is started by.
#include <string_view>

int ServerMain(int argc, char** argv);
int ClientMain(int argc, char** argv);

int main(int argc, char** argv) {
  std::string_view name = argc > 0 ? argv[0] : "";
  name.remove_prefix(name.rfind('/') + 1);
  return name == "beamwright" ? ClientMain(argc, argv) : ServerMain(argc, argv);
}
