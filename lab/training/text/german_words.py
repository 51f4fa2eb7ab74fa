"""Word lists of the German grammar, one slot per name; nouns by gender (`m_`, `f_`, `n_`).

Form: see `words.py`. Masculine nouns are those whose dative and accusative are the nominative.
"""

WORDS: dict[str, str] = {
    "name": "Anna Peter Jürgen Björn Lukas Sophie Käthe Günter Heike Jonas Leonie Stefan Ursula "
    "Matthias Katrin Moritz Frieda Sönke Bärbel Emil",
    "city": "Berlin Hamburg München Köln Wien Zürich Düsseldorf Lübeck Leipzig Nürnberg Dresden "
    "Stuttgart Tübingen Salzburg Göttingen Bremen",
    "land": "Deutschland Österreich Frankreich Spanien Italien Polen Dänemark Ungarn Norwegen",
    "weekday": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "month": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "daypart": "Morgen Mittag Nachmittag Abend",
    "m_family": "Vater Bruder Onkel Großvater Sohn Cousin",
    "f_family": "Mutter Schwester Tante Großmutter Tochter Nichte",
    "m_person": "Lehrer Arzt Bäcker Fahrer Gärtner Maler Richter Verkäufer Nachbarssohn Schüler",
    "f_person": "Lehrerin Ärztin Köchin Sängerin Nachbarin Schülerin Freundin Chefin",
    "m_thing": "Apfel Ball Baum Becher Brief Computer Fernseher Garten Hammer Hut Koffer Korb "
    "Löffel Mantel Ofen Rucksack Schlüssel Schrank Schuh Stein Stift Stuhl Teller Teppich Tisch "
    "Topf Wagen Spiegel Ring Regenschirm",
    "f_thing": "Bluse Brille Decke Flasche Gabel Gitarre Jacke Kamera Karte Kerze Kiste Lampe "
    "Leiter Maschine Mütze Schüssel Tasche Tasse Tür Uhr Vase Zeitung Brücke Kirche Blume",
    "n_thing": "Auto Bett Bild Buch Fahrrad Fenster Geschenk Glas Handtuch Haus Heft Hemd Kissen "
    "Kleid Messer Papier Paket Radio Schiff Schloss Sofa Spiel Telefon Tor Zimmer",
    "m_animal": "Hund Vogel Fisch Frosch Fuchs Wolf Tiger Esel Käfer",
    "f_animal": "Katze Kuh Maus Ente Ziege Biene Schlange Schildkröte",
    "n_animal": "Pferd Schaf Schwein Huhn Kaninchen Reh",
    "m_place": "Bahnhof Flughafen Markt Park Supermarkt Strand Hafen Wald See Berg",
    "f_place": "Schule Bäckerei Apotheke Bibliothek Post Stadt Insel Wiese Straße Küche",
    "n_place": "Büro Museum Restaurant Krankenhaus Kino Theater Dorf Rathaus Schwimmbad Wohnzimmer",
    "food": "Brot Käse Butter Suppe Reis Fleisch Kuchen Honig Obst Gemüse Schinken Salat Nudeln "
    "Kartoffeln Würstchen Pfannkuchen Erdbeeren Äpfel Brötchen Müsli",
    "drink": "Wasser Kaffee Tee Milch Saft Bier Wein Limonade",
    "meal": "Frühstück Mittagessen Abendessen",
    "adj": "alt neu groß klein schön kaputt teuer billig schwer leicht rot grün blau gelb schwarz "
    "weiß braun sauber schmutzig leer voll rund weich hart kalt warm langsam schnell laut leise "
    "müde fröhlich traurig hungrig böse wichtig möglich gefährlich gemütlich berühmt süß",
    "adverb": "sehr ziemlich wirklich besonders zu fast",
    "weather": "sonnig bewölkt windig neblig kalt warm heiß kühl stürmisch trocken",
    "verb_ich": "suche finde kaufe brauche nehme bringe sehe verkaufe putze mag zeichne repariere",
    "verb_er": "sucht findet kauft braucht nimmt bringt sieht verkauft putzt mag zeichnet "
    "repariert",
    "infinitive": "suchen finden kaufen verkaufen putzen reparieren bringen sehen nehmen öffnen "
    "schließen vergessen malen tragen",
    "participle": "gesucht gefunden gekauft verkauft geputzt repariert gebracht gesehen vergessen "
    "verloren geöffnet getragen gemalt gezählt",
    "act": "schlafen schwimmen tanzen kochen lesen schreiben arbeiten spielen warten singen laufen "
    "lernen lachen üben träumen",
    "act_er": "schläft schwimmt tanzt kocht liest schreibt arbeitet spielt wartet singt läuft "
    "lernt lacht übt träumt",
    "digit": "zwei drei vier fünf sechs sieben acht neun",
    "teen": "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
    "tens": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "compound": "einundzwanzig dreiunddreißig vierundfünfzig siebenundsechzig achtundachtzig "
    "fünfundneunzig zweiundvierzig neunundzwanzig",
    "hour": "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "ordinal": "erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte zwölfte "
    "zwanzigste dreißigste",
    "unit_time": "Sekunden Minuten Stunden Tage Wochen Monate Jahre",
    "unit": "Euro Meter Kilometer Gramm Grad Prozent Seiten",
    "frequency": "immer nie oft manchmal selten meistens",
    "manner": "langsam schnell leise laut vorsichtig plötzlich zusammen allein früh spät wieder "
    "draußen zuhause",
    "sport": "Fußball Tennis Schach Handball Golf Karten",
    "subject": "Mathematik Geschichte Musik Biologie Chemie Kunst Physik",
}

PHRASES: dict[str, str] = {
    "moment": "heute|morgen|gestern|übermorgen|jetzt|nächste Woche|heute Abend|am Wochenende|"
    "jeden Tag|bald|in ein paar Minuten|vor dem Essen|nach der Schule|um Mitternacht",
    "reaction": "Ja|Nein|Vielleicht|Natürlich|Genau|Stimmt|Schade|Wunderbar|Moment bitte|Klar|"
    "Gern geschehen|Achtung|Endlich|Leider nicht|Nicht schlecht|Alles klar|Das glaube ich nicht",
    "link": "weil es regnet|wenn du willst|obwohl es spät ist|bevor wir gehen|damit alle es sehen",
}


def slots() -> dict[str, list[str]]:
    """Returns every slot with its entries, in the order written above."""
    lists = {name: text.split() for name, text in WORDS.items()}
    return lists | {name: text.split("|") for name, text in PHRASES.items()}
