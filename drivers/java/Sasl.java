import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag;
import javax.security.auth.login.Configuration;

/** The SASL identity of all clients of this process, kept in memory instead of a JAAS file. */
final class Sasl {
    private Sasl() {}

    /** Sets the identity from an `open`, if any. Must be called before the client is created. */
    static synchronized void identify(JsonNode open) {
        JsonNode sasl = open.path("sasl");
        if (sasl.isMissingNode()) return;
        var login = new AppConfigurationEntry("org.apache.zookeeper.server.auth.DigestLoginModule",
            LoginModuleControlFlag.REQUIRED,
            Map.of("username", sasl.path("user").asText(), "password", sasl.path("password").asText()));
        Configuration.setConfiguration(new Configuration() {
            @Override
            public AppConfigurationEntry[] getAppConfigurationEntry(String section) {
                return section.equals("Client") ? new AppConfigurationEntry[] {login} : null;
            }
        });
    }
}
