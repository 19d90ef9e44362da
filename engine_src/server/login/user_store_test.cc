#include "server/login/user_store.h"

#include <gtest/gtest.h>

#include <fstream>

namespace kv::server {
namespace {

class UserFile : public testing::Test {
  protected:
    void TearDown() override { std::filesystem::remove(file_); }
    void write(const char* text, unsigned mode = 0600) {
        std::ofstream(file_) << text;
        std::filesystem::permissions(file_, static_cast<std::filesystem::perms>(mode));
    }
    std::string errorOf() {
        try {
            UserStore::load(file_);
        } catch (const UserFileError& error) {
            return error.what();
        }
        return {};
    }

    std::filesystem::path file_{testing::TempDir() + "users-" + std::to_string(::getpid()) +
                                ".json"};
};

TEST_F(UserFile, IsLoaded) {
    write(R"({"ann": "secret", "bob": "other"})");
    const auto users = UserStore::load(file_);
    EXPECT_TRUE(users.checkPassword("ann", "secret"));
    EXPECT_TRUE(users.checkPassword("bob", "other"));
    EXPECT_FALSE(users.checkPassword("ann", "other"));
    EXPECT_FALSE(users.checkPassword("eve", ""));
}

TEST_F(UserFile, UsersHaveRoles) {
    write(R"({"ann": "secret", "bob": {"password": "other", "role": "read-only"},
              "cyd": {"password": "third", "role": "read-write"}})");
    const auto users = UserStore::load(file_);
    EXPECT_TRUE(users.checkPassword("bob", "other"));
    EXPECT_EQ(users.role("ann"), Role::Admin);
    EXPECT_EQ(users.role("bob"), Role::ReadOnly);
    EXPECT_EQ(users.role("cyd"), Role::ReadWrite);
    EXPECT_EQ(users.role("eve"), Role::ReadOnly);
    EXPECT_EQ(readUserFile(file_).at("cyd"), "third");
}

TEST_F(UserFile, ReadableByOthersIsRefused) {
    for (const unsigned mode : {0640U, 0604U, 0644U, 0620U}) {
        write(R"({"ann": "secret"})", mode);
        EXPECT_NE(errorOf().find("chmod 600"), std::string::npos) << std::oct << mode;
    }
}

TEST_F(UserFile, ContentThatIsNotUsersIsRefused) {
    EXPECT_NE(errorOf().find("cannot be read"), std::string::npos) << "absent";
    std::filesystem::create_directory(file_);
    EXPECT_NE(errorOf().find("is a directory"), std::string::npos);
    std::filesystem::remove(file_);
    for (const char* text :
         {"", "[]", "{}", "not json", R"({"ann": 5})", R"({"ann": ""})", R"({"": "x"})",
          R"({"ann": {"password": "x"}})", R"({"ann": {"password": "x", "role": "root"}})",
          R"({"ann": {"password": "", "role": "admin"}})",
          R"({"ann": {"password": "x", "role": "admin", "more": 1}})",
          R"({"ann": {"password": "x", "role": "read-only"}, "ann": "y"})"}) {
        write(text);
        EXPECT_FALSE(errorOf().empty()) << text;
    }
}

}  // namespace
}  // namespace kv::server
